package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/session"
)

// cobra generates the completion scripts, which ask the binary for commands and flags. This file completes arguments.

// completeFlag completes a flag with words.
func completeFlag(c *cobra.Command, flag string, words []string) {
	// It fails only for a flag that is not there or has words already.
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// completeFolders completes flags with folders.
func completeFolders(c *cobra.Command, flags ...string) {
	for _, flag := range flags {
		if err := c.MarkFlagDirname(flag); err != nil {
			panic(err)
		}
	}
}

// completeWith completes flag, for the command line so far.
func completeWith(c *cobra.Command, flag string, words func(args []string) []string) {
	f := func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return words(args), cobra.ShellCompDirectiveNoFileComp
	}
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// scenarioArgs completes arguments with the scenarios of the library; a shell that finds none there offers
// files.
func scenarioArgs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, name := range scenarios.Names() {
		words = append(words, name+"\t"+described(name))
	}
	return words, cobra.ShellCompDirectiveDefault
}

// described is the first sentence of a scenario's description.
func described(name string) string {
	_, s, err := session.Open(name, nil)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(s.Metadata.Description, ". ")
	return first
}

// folderArgs completes the first argument with folders, and those after it with files.
func folderArgs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// variantsOf are the variants of the scenarios in args.
func variantsOf(args []string) []string {
	var words []string
	for _, name := range args {
		if _, s, err := session.Open(name, nil); err == nil {
			for _, v := range s.Spec.Variants {
				words = append(words, v.Name+"\t"+v.Description)
			}
		}
	}
	return words
}

// parametersOf are the parameters of the scenarios in args, up to their values.
func parametersOf(args []string) []string {
	var words []string
	for _, name := range args {
		if _, s, err := session.Open(name, nil); err == nil {
			for p, value := range s.Spec.Parameters {
				words = append(words, p+"="+value)
			}
		}
	}
	return words
}
