package reports

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"io"
	"regexp"
	"strings"

	"github.com/leakrig/leakrig/leak/display"

	_ "embed"
)

//go:embed html_page.css
var styleSource string

var (
	//go:embed html_page.js
	pageScript string
	//go:embed html_flame.js
	flameScript string
)

// scriptSource is the script of every page. Its functions are not visible to other scripts.
var scriptSource = "\"use strict\";\n(() => {\n" + pageScript + flameScript + "})();"

// styleSheet and script are embedded in every page, without comments and indents. These are a tenth of the size, and
// people mail pages.
var styleSheet, script = squeezeStyle(styleSource), squeezeScript(scriptSource)

var (
	styleComment  = regexp.MustCompile(`(?s)/\*.*?\*/`)
	scriptComment = regexp.MustCompile(`(?m)^\s*//.*$`)
	// styleSpace matches white space next to characters that separate anyway. It removes only the space after a
	// colon, because in a selector the space before it is significant.
	styleSpace = regexp.MustCompile(`\s*([{};,])\s*|(:) `)
	indent     = regexp.MustCompile(`\s*\n\s*`)
	// directive matches a template line with only a control action, whose only output would be a newline.
	directive = regexp.MustCompile(`(?m)^(\{\{(?:if|else|end|range|with)\b[^{}]*\}\})\n`)
)

func squeezeStyle(s string) string {
	return strings.TrimSpace(styleSpace.ReplaceAllString(styleComment.ReplaceAllString(s, ""), "$1$2"))
}

// squeezeScript removes comments and the indents of lines. It keeps newlines, and no string of the script spans two
// lines.
func squeezeScript(s string) string {
	return strings.TrimSpace(indent.ReplaceAllString(scriptComment.ReplaceAllString(s, ""), "\n"))
}

// squeezePage removes the indents of a template. White space between words stays as a newline. Preformatted text
// always comes from data, never from the template.
func squeezePage(s string) string {
	return directive.ReplaceAllString(indent.ReplaceAllString(s, "\n"), "$1")
}

// plainPlus writes plus signs literally. html/template writes them as entities, because a page without an encoding
// could be read as UTF-7. These pages declare their encoding first.
func plainPlus(b []byte) []byte { return bytes.ReplaceAll(b, []byte("&#43;"), []byte("+")) }

// writePage writes the complete page, or nothing if it fails.
func writePage(w io.Writer, t *template.Template, data any) error {
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return err
	}
	return display.WriteText(w, string(plainPlus(b.Bytes())))
}

// policy allows only this style sheet and this script, by their hashes. It forbids requests, frames, and other
// scripts that a profile or a log might inject.
var policy = "default-src 'none'; style-src " + sourceHash(styleSheet) + "; script-src " + sourceHash(script) + "; base-uri 'none'; form-action 'none'"

func sourceHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// generator identifies the form of the page. Change it when pages of the previous form should be rendered again.
const generator = "leakrig, form 2 of the page"

// assets are the template functions that every page uses.
var assets = template.FuncMap{
	"style":     func() template.CSS { return template.CSS(styleSheet) },
	"script":    func() template.JS { return template.JS(script) },
	"policy":    func() string { return policy },
	"generator": func() string { return generator },
}
