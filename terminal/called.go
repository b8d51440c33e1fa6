package terminal

import (
	"os"
	"regexp"
	"strings"
)

var ownCommand = regexp.MustCompile("`((?:sudo )?)leakrig ")

// AsCalled makes the commands in a hint what the user can type: a checkout has only bin/leakrig.
func AsCalled(hint string) string {
	return ownCommand.ReplaceAllString(hint, "`${1}"+strings.ReplaceAll(os.Args[0], "$", "$$")+" ")
}
