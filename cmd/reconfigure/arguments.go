package main

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// runApp runs the app with its flags in front of the arguments, where the library looks for them.
func runApp(ctx context.Context, app *cli.App, args []string) error {
	return app.RunContext(ctx, flagsFirst(app, args))
}

// flagsFirst moves the flags of the command in args, with their values, in front of its arguments. The first -- ends
// the flags.
func flagsFirst(app *cli.App, args []string) []string {
	flags, commands := app.Flags, app.Commands
	for i := 1; i < len(args); i++ {
		if isFlag(args[i]) {
			if takesNext(flags, args[i]) {
				i++
			}
			continue
		}
		at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[i]) })
		if at < 0 {
			return args
		}
		flags, commands = commands[at].Flags, commands[at].Subcommands
		if len(commands) == 0 {
			return slices.Concat(args[:i+1], sortArguments(flags, args[i+1:]))
		}
	}
	return args
}

// sortArguments returns the flags, then --, then the arguments. If help is asked for, it returns the help flag alone,
// since the library then takes arguments for commands. A flag without its value comes last, and the library rejects it.
func sortArguments(declared []cli.Flag, args []string) []string {
	var flags, rest []string
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			rest, args = append(rest, args...), nil
		case !isFlag(arg):
			rest = append(rest, arg)
		case slices.Contains(cli.HelpFlag.Names(), strings.TrimLeft(arg, "-")):
			return []string{arg}
		case !takesNext(declared, arg):
			flags = append(flags, arg)
		case len(args) == 0:
			return append(flags, arg)
		default:
			flags = append(flags, arg, args[0])
			args = args[1:]
		}
	}
	return slices.Concat(flags, []string{"--"}, rest)
}

// isFlag reports whether an argument is a flag; - is not: it means standard input.
func isFlag(arg string) bool { return strings.HasPrefix(arg, "-") && strings.Trim(arg, "-") != "" }

// takesNext reports whether the argument after a flag is its value. In a group of short flags such as -vo, only the
// last one takes a value.
func takesNext(declared []cli.Flag, arg string) bool {
	name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	if flagNamed(declared, name) == nil && !strings.HasPrefix(arg, "--") && !strings.Contains(arg, "=") {
		name = name[len(name)-1:]
	}
	f, documented := flagNamed(declared, name).(cli.DocGenerationFlag)
	return documented && f.TakesValue()
}

// flagNamed returns the flag with a name, or nil.
func flagNamed(declared []cli.Flag, name string) cli.Flag {
	for _, f := range declared {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}
