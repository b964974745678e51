package main

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// The scripts call `reconfigure complete` at each TAB.
var (
	//go:embed completion/bash
	bashCompletion string
	//go:embed completion/zsh
	zshCompletion string
	//go:embed completion/fish
	fishCompletion string
)

func completionCommand() *cli.Command {
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	shells := strings.Join(slices.Sorted(maps.Keys(scripts)), "|")
	return command(cli.Command{
		Name:  "completion",
		Usage: "print the completion of commands and options for a shell",
		Description: "The packages install it. Elsewhere, in bash: `source <(reconfigure completion bash)`; in zsh, " +
			"after compinit: `source <(reconfigure completion zsh)`; in fish: `reconfigure completion fish | source`.",
		ArgsUsage: shells,
		Action: func(c *cli.Context) error {
			script, known := scripts[c.Args().First()]
			if !known || c.NArg() > 1 {
				return usagef(c, "completion takes one of %s, but got %q", shells, c.Args().Slice())
			}
			_, err := fmt.Fprint(c.App.Writer, script)
			return err
		},
	})
}

// completeCommand is for the scripts. The library's completion panics at an incomplete option, and runs the command
// after --.
func completeCommand() *cli.Command {
	return command(cli.Command{
		Name:      "complete",
		Usage:     "print what may stand for the last of these words of a command line",
		ArgsUsage: "-- WORD...",
		Hidden:    true,
		Action: func(c *cli.Context) error {
			words := c.Args().Slice()
			if len(words) == 0 {
				return usagef(c, "complete needs the words after `reconfigure`, and the last one may be empty")
			}
			for _, one := range completions(c.App, words[:len(words)-1], words[len(words)-1]) {
				if _, err := fmt.Fprintf(c.App.Writer, "%s\t%s\n", one.word, one.meaning); err != nil {
					return err
				}
			}
			return nil
		},
	})
}

// completion is a command or an option.
type completion struct{ word, meaning string }

// completions returns the commands or options that begin with a text and may follow other words.
func completions(app *cli.App, before []string, text string) []completion {
	flags, commands := app.Flags, app.Commands
	for i := 0; i < len(before); i++ {
		word := before[i]
		switch {
		case word == "--":
			return nil
		case isFlag(word):
			if !takesNext(flags, word) {
				continue
			}
			if i++; i == len(before) {
				return nil // the text is the option's value
			}
		default:
			if at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) }); at >= 0 {
				flags, commands = commands[at].Flags, commands[at].Subcommands
			}
		}
	}
	var found []completion
	add := func(word, meaning string) {
		if strings.HasPrefix(word, text) {
			found = append(found, completion{word, meaning})
		}
	}
	if !strings.HasPrefix(text, "-") {
		for _, c := range commands {
			if !c.Hidden {
				add(c.Name, c.Usage)
			}
		}
		return found
	}
	for _, f := range flags {
		if doc, documented := f.(cli.DocGenerationFlag); documented {
			_, usage := placeholder(doc.GetUsage())
			add("--"+f.Names()[0], usage)
		}
	}
	return found
}
