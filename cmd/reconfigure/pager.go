package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// pagedCommands print what they have found at their end, and may print more than a screen.
var pagedCommands = []string{"status", "explain", "history", "evidence", "jobs", reportName, "hosts"}

// screen is a terminal whose text is collected for the pager. Tables get the width of the terminal.
type screen struct {
	bytes.Buffer
	terminal *os.File
}

// Fd returns the descriptor of the terminal.
func (s *screen) Fd() uintptr { return s.terminal.Fd() }

// paged makes the results of a command have colours and go through a pager if they are for people at a terminal, as
// those of git do.
func paged(action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		terminal, ok := c.App.Writer.(*os.File)
		format, err := outputFormat(c)
		if err != nil || !ok || !format.ForPeople() || !text.IsTerminal(terminal) || c.Bool("follow") {
			return action(c)
		}
		page := &screen{terminal: terminal}
		c.App.Writer = page
		err = action(c)
		c.App.Writer = terminal
		if colourful(os.LookupEnv) {
			page.colour()
		}
		if failure := page.show(pager(os.LookupEnv, exec.LookPath), c.App.ErrWriter); failure != nil {
			return errors.Join(err, failure)
		}
		return err
	}
}

// pager returns the command of a pager for sh: PAGER, or else less if it is installed. It is empty if there is none, or
// if PAGER is empty or cat.
func pager(look func(name string) (string, bool), find func(program string) (string, error)) string {
	command, set := look("PAGER")
	if set && command == "cat" {
		return ""
	}
	if !set {
		command, _ = find("less")
	}
	return command
}

// colourful reports whether a terminal gets colours: NO_COLOR is not set (https://no-color.org), nor is TERM dumb.
func colourful(look func(name string) (string, bool)) bool {
	off, _ := look("NO_COLOR")
	kind, _ := look("TERM")
	return off == "" && kind != "" && kind != "dumb"
}

// failure matches the words that results have for what failed. They are the same without colours.
var failure = regexp.MustCompile(`\b(?:failed|refused|ERROR|MISSING)\b`)

// colour makes the words for what failed red.
func (s *screen) colour() {
	text := failure.ReplaceAll(s.Bytes(), []byte("\x1b[31m$0\x1b[m"))
	s.Reset()
	s.Write(text)
}

// show runs the pager. Without one that runs, the text goes to the terminal.
func (s *screen) show(pager string, stderr io.Writer) error {
	if pager == "" || s.Len() == 0 {
		_, err := s.WriteTo(s.terminal)
		return err
	}
	env := os.Environ()
	if _, set := os.LookupEnv("LESS"); !set {
		env = append(env, "LESS=FRX") // less ends at once if the text fits on the screen
	}
	code, err := process.Foreground(process.Cmd{
		Path: "sh", Args: []string{"-c", pager}, Env: env, Stdin: bytes.NewReader(s.Bytes()), Stdout: s.terminal, Stderr: stderr,
	})
	if err != nil || code == cannotRun || code == notFound {
		_, err = s.WriteTo(s.terminal)
	}
	return err
}

// The exit codes of sh for a command that it cannot run.
const (
	cannotRun = 126
	notFound  = 127
)
