package reports

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"regexp"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

//go:embed report.css
var styleSource string

//go:embed report.js
var scriptSource string

// styleSheet and script are what a page carries: people mail pages, and comments and indents are a tenth.
var styleSheet, script = squeezeStyle(styleSource), squeezeScript(scriptSource)

var (
	styleComment  = regexp.MustCompile(`(?s)/\*.*?\*/`)
	scriptComment = regexp.MustCompile(`(?m)^\s*//.*$`)
	// styleSpace is around what separates anyway; a colon in a selector has none after it.
	styleSpace = regexp.MustCompile(`\s*([{};,])\s*|(:) `)
	indent     = regexp.MustCompile(`\s*\n\s*`)
	// directive is a line of a template that is nothing but control, and writes nothing but its line's end.
	directive = regexp.MustCompile(`(?m)^(\{\{(?:if|else|end|range|with)\b[^{}]*\}\})\n`)
)

func squeezeStyle(s string) string {
	return strings.TrimSpace(styleSpace.ReplaceAllString(styleComment.ReplaceAllString(s, ""), "$1$2"))
}

// squeezeScript removes only the indents of lines: no string of the script spans two lines.
func squeezeScript(s string) string {
	return strings.TrimSpace(indent.ReplaceAllString(scriptComment.ReplaceAllString(s, ""), "\n"))
}

// squeezePage takes the indents from a template. White space between words stays, as the end of a line; text
// that is shown as it stands comes from data and never from the template.
func squeezePage(s string) string {
	return directive.ReplaceAllString(indent.ReplaceAllString(s, "\n"), "$1")
}

// plainPlus writes plus signs literally. html/template writes them as entities, because a page without an encoding
// could be read as UTF-7. These pages declare their encoding first.
func plainPlus(b []byte) []byte { return bytes.ReplaceAll(b, []byte("&#43;"), []byte("+")) }

// writePage writes a page whole or not at all.
func writePage(w io.Writer, t *template.Template, data any) error {
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return err
	}
	return leak.WriteText(w, string(plainPlus(b.Bytes())))
}

// policy allows only this style sheet and this script, by their hashes. It forbids requests, frames and other scripts
// that a profile or a log might inject.
var policy = "default-src 'none'; style-src " + sourceHash(styleSheet) + "; script-src " + sourceHash(script) + "; base-uri 'none'; form-action 'none'"

func sourceHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// generator identifies the form of the page. Change it when pages of the previous form should be rendered again.
const generator = "leakrig, form 2 of the page"

// assets are what every page holds besides its data.
var assets = template.FuncMap{
	"style":     func() template.CSS { return template.CSS(styleSheet) },
	"script":    func() template.JS { return template.JS(script) },
	"policy":    func() string { return policy },
	"generator": func() string { return generator },
}
