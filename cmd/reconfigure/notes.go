package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// notes is the logger of commands whose output people read: it writes a sentence for each record to standard error.
// With --json it is logger.
func notes(c *cli.Context) *slog.Logger {
	if wantsJSON(c) {
		return logger(c)
	}
	brief := flagNamed(c.Command.Flags, "verbose") != nil && !c.Bool("verbose")
	return slog.New(noteHandler{c.App.ErrWriter, brief})
}

// fullFlag is for commands that print the output of other programs.
func fullFlag() cli.Flag {
	return &cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, DisableDefaultText: true,
		Usage: "print messages of other programs in full"}
}

// noteHandler prints the message of each record, and its attributes.
type noteHandler struct {
	w     io.Writer
	brief bool // attributes are shortened
}

func (h noteHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h noteHandler) Handle(_ context.Context, r slog.Record) error {
	line, more := "reconfigure: "+r.Message, ""
	r.Attrs(func(a slog.Attr) bool {
		said := a.Value.String()
		if h.brief {
			brief, cut := text.Brief(said)
			if said = brief; cut {
				more = " (-v prints all of it)"
			}
		}
		line += ": " + said
		return true
	})
	_, err := fmt.Fprintln(h.w, line+more)
	return err
}

// WithAttrs and WithGroup ignore their arguments, since nothing here uses them.
func (h noteHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h noteHandler) WithGroup(string) slog.Handler      { return h }
