package reports

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
)

//go:embed report.css
var styleSheet string

//go:embed report.js
var script string

// policy forbids everything but this style sheet and this script, by their hashes: no request, no frame,
// no other script, whatever a profile or a log might smuggle into the page.
var policy = "default-src 'none'; style-src " + sourceHash(styleSheet) + "; script-src " + sourceHash(script) + "; base-uri 'none'; form-action 'none'"

func sourceHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// assets are what every page holds besides its data.
var assets = template.FuncMap{
	"style":  func() template.CSS { return template.CSS(styleSheet) },
	"script": func() template.JS { return template.JS(script) },
	"policy": func() string { return policy },
}
