package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

func manCommand() *cli.Command {
	return command(cli.Command{
		Name:   "man",
		Usage:  "print the manual page reconfigure(1) in the Markdown of md2man",
		Hidden: true, // only the packages need it
		Action: func(c *cli.Context) error {
			_, err := fmt.Fprint(c.App.Writer, manual(c.App))
			return err
		},
	})
}

// manual returns the manual page. The library's own page has no descriptions, arguments and exit codes.
func manual(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%% %s 1\n\n# NAME\n\n%s - %s\n\n", strings.ToUpper(app.Name), app.Name, app.Usage)
	fmt.Fprintf(&b, "# SYNOPSIS\n\n`%s`\n\n# OPTIONS OF ALL COMMANDS\n\n", app.UsageText)
	everywhere := map[string]bool{}
	manualOptions(&b, app.Flags, everywhere)
	for _, f := range app.Flags {
		everywhere[f.Names()[0]] = true
	}
	b.WriteString("# COMMANDS\n\n")
	manualCommands(&b, "", app.VisibleCommands(), everywhere)
	b.WriteString("# EXIT STATUS\n\n")
	for _, e := range exitsInOrder() {
		fmt.Fprintf(&b, "**%d**\n: %s\n\n", e.code, e.meaning)
	}
	return strings.ReplaceAll(b.String(), "…", "...") // which terminals without UTF-8 cannot show
}

func manualCommands(b *strings.Builder, before string, commands []*cli.Command, everywhere map[string]bool) {
	for _, c := range commands {
		if c.Hidden {
			continue
		}
		name := before + c.Name
		if len(c.Subcommands) == 0 {
			fmt.Fprintf(b, "## %s\n\n", strings.TrimSpace(name+" [options] "+c.ArgsUsage))
		} else {
			fmt.Fprintf(b, "## %s\n\n", name)
		}
		fmt.Fprintf(b, "%s\n\n%s\n\n", sentence(c.Usage), c.Description)
		manualOptions(b, c.Flags, everywhere)
		manualCommands(b, name+" ", c.Subcommands, everywhere)
	}
}

// manualOptions writes flags, except those with the given names.
func manualOptions(b *strings.Builder, flags []cli.Flag, except map[string]bool) {
	for _, f := range flags {
		doc, documented := f.(cli.DocGenerationFlag)
		if !documented || except[f.Names()[0]] {
			continue
		}
		names, usage := flagNames(doc)
		if value := doc.GetDefaultText(); doc.TakesValue() && value != "" {
			usage += " (default: " + strings.Trim(value, `"`) + ")"
		}
		fmt.Fprintf(b, "**%s**\n: %s\n\n", strings.Join(names, "**, **"), usage)
	}
}

// flagNames returns the names of a flag with dashes, the first one with the name of its value, and the flag's usage
// with its environment variables.
func flagNames(f cli.DocGenerationFlag) (names []string, usage string) {
	for _, name := range f.(cli.Flag).Names() {
		dashes := "--"
		if len(name) == 1 {
			dashes = "-"
		}
		names = append(names, dashes+name)
	}
	value, usage := placeholder(f.GetUsage())
	if f.TakesValue() {
		names[0] += " " + cmp.Or(value, "VALUE")
	}
	if env := f.GetEnvVars(); len(env) > 0 {
		usage += " (environment: " + strings.Join(env, ", ") + ")"
	}
	return names, usage
}

// placeholder returns the name of a flag's value, which is in back quotes in the flag's usage, and the usage without
// the quotes.
func placeholder(usage string) (name, without string) {
	before, rest, found := strings.Cut(usage, "`")
	name, after, closed := strings.Cut(rest, "`")
	if !found || !closed {
		return "", usage
	}
	return name, before + name + after
}

// sentence turns a command's short description into a sentence.
func sentence(usage string) string { return strings.ToUpper(usage[:1]) + usage[1:] + "." }
