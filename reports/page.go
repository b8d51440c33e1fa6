package reports

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
)

//go:embed report.css
var styleSheet string

// policy forbids everything but this style sheet, by its hash: no request, no script, no frame, whatever
// a profile or a log might smuggle into the page.
var policy = "default-src 'none'; style-src " + sourceHash(styleSheet) + "; base-uri 'none'; form-action 'none'"

func sourceHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// assets are what every page holds besides its data.
var assets = template.FuncMap{
	"style":  func() template.CSS { return template.CSS(styleSheet) },
	"policy": func() string { return policy },
}
