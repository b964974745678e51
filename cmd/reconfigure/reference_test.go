package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestTheCommandReferenceIsCurrent compares two pages of docs/reference with the program's commands and exit codes.
func TestTheCommandReferenceIsCurrent(t *testing.T) {
	for name, want := range map[string][]byte{"commands.md": commandReference(), "exit-codes.md": exitReference()} {
		page := filepath.Join("..", "..", "docs", "reference", name)
		if *update {
			ok(t, os.WriteFile(page, want, 0o644))
		}
		got, err := os.ReadFile(page)
		ok(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: run `make golden`", page)
		}
	}
}

// generated marks a page that a program writes. Package docs reads it.
const generated = "<!-- Written by `make golden`. -->\n"

// exitReference returns the page of the exit codes, in Markdown.
func exitReference() []byte {
	var b bytes.Buffer
	b.WriteString(generated + "# Exit codes\n\n`make golden` writes this page from the program itself. " +
		"[Failures](../guides/failures.md#exit-codes) says which class of\nfailure gives which code.\n\n" +
		"| code | meaning |\n|---|---|\n")
	for _, row := range exitsInOrder() {
		fmt.Fprintf(&b, "| %d | %s |\n", row.code, cell(row.meaning))
	}
	return b.Bytes()
}

// commandReference returns the page for people, in Markdown.
func commandReference() []byte {
	app := newApp(nil, nil, nil)
	everywhere := map[string]bool{"help": true}
	for _, f := range app.Flags {
		everywhere[f.Names()[0]] = true
	}
	var b bytes.Buffer
	b.WriteString(generated + "# Commands\n\n`make golden` writes this page from the program itself. " +
		"`reconfigure COMMAND --help` prints the same.\n[Exit codes](exit-codes.md) are the same for all commands.\n\n## Options of all commands\n\n")
	optionTable(&b, app.Flags)
	for _, c := range app.Commands {
		if c.Hidden {
			continue
		}
		commandSection(&b, "reconfigure", c, everywhere)
	}
	return b.Bytes()
}

func commandSection(b *bytes.Buffer, before string, c *cli.Command, everywhere map[string]bool) {
	name := before + " " + c.Name
	fmt.Fprintf(b, "\n## %s\n\n%s\n", strings.TrimPrefix(name, "reconfigure "), cell(sentence(c.Usage)))
	if len(c.Subcommands) == 0 {
		fmt.Fprintf(b, "\n    %s\n", strings.TrimSpace(name+" [options] "+c.ArgsUsage))
	}
	if c.Description != "" {
		fmt.Fprintf(b, "\n%s\n", c.Description)
	}
	own := slices.DeleteFunc(slices.Clone(c.Flags), func(f cli.Flag) bool { return everywhere[f.Names()[0]] })
	if len(own) > 0 {
		b.WriteString("\n")
		optionTable(b, own)
	}
	for _, sub := range c.Subcommands {
		commandSection(b, name, sub, everywhere)
	}
}

func optionTable(b *bytes.Buffer, flags []cli.Flag) {
	b.WriteString("| option | meaning | default |\n|---|---|---|\n")
	for _, f := range flags {
		doc, documented := f.(cli.DocGenerationFlag)
		if !documented {
			continue
		}
		names, usage := flagNames(doc)
		given := ""
		if doc.TakesValue() {
			given = strings.Trim(doc.GetDefaultText(), `"`)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", strings.Join(names, "`, `"), cell(usage), cell(given))
	}
}

// cell returns text for a table's cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
