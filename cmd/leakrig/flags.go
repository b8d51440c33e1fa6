package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/scenarios"
)

// oneOf is the value of a flag that takes one of a few words.
type oneOf struct {
	value *string
	words []string
}

// wordFlag adds a flag that takes one of words, and nothing else; shells complete it with them.
func wordFlag(c *cobra.Command, value *string, name, preset string, words []string, usage string) {
	*value = preset
	c.Flags().Var(&oneOf{value, words}, name, usage+": "+strings.Join(words, ", "))
	completeFlag(c, name, words)
}

func (o *oneOf) String() string { return *o.value }
func (o *oneOf) Type() string   { return "word" }

func (o *oneOf) Set(word string) error {
	if !slices.Contains(o.words, word) {
		return leak.WithHint(errors.New("no such word"), "%s", scenarios.OneOf(word, o.words))
	}
	*o.value = word
	return nil
}

// textFormats are what commands print that write no report.
func textFormats() []string { return []string{"text", "json"} }

// usage marks an error of the command line, with a hint.
func usage(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	hint := leak.Hint(err)
	if hint == "" {
		hint = fmt.Sprintf("see `%s --help`", c.CommandPath())
	}
	if near := scenarios.Nearest(unknownFlag(err), flagNames(c)); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return &leak.UsageError{Err: leak.WithHint(err, "%s", hint)}
}

// operands describes the operands of c if there are too few or too many of them. The messages of cobra do not name
// them.
func operands(c *cobra.Command, args []string, err error) error {
	if err == nil || !strings.Contains(err.Error(), " arg(s)") {
		return err
	}
	_, takes, _ := strings.Cut(c.Use, " ")
	given := "nothing"
	if len(args) > 0 {
		given = strings.Join(args, " ")
	}
	return fmt.Errorf("%s takes %s, and was given %s", c.CommandPath(), takes, given)
}

// unknownFlag returns the unknown flag in err, "" for another error.
func unknownFlag(err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return ""
	}
	return "--" + unknown.GetSpecifiedName()
}

func flagNames(c *cobra.Command) []string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return names
}

// commandNames are those of the commands below c that a user may type.
func commandNames(c *cobra.Command) []string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// noCommand are the arguments of a command that only holds others.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := fmt.Sprintf("`%s --help` lists the commands", c.CommandPath())
	if near := scenarios.Nearest(args[0], commandNames(c)); near != "" {
		hint = fmt.Sprintf("did you mean `%s %s`? %s", c.CommandPath(), near, hint)
	}
	return leak.WithHint(fmt.Errorf("%s has no command %q", c.CommandPath(), args[0]), "%s", hint)
}

// acceptFlag adds --accept-altered.
func acceptFlag(c *cobra.Command, accept *bool) {
	c.Flags().BoolVar(accept, "accept-altered", false, "accept an altered record, or one without a seal (see docs/records.md)")
}
