package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"github.com/urfave/cli/v2"

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

// paged makes the results of a command go through a pager if they are for people at a terminal, as those of git do.
func paged(action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		terminal, ok := c.App.Writer.(*os.File)
		format, err := outputFormat(c)
		pager := pager(os.LookupEnv, exec.LookPath)
		if err != nil || !ok || !format.ForPeople() || !text.IsTerminal(terminal) || pager == "" || c.Bool("follow") {
			return action(c)
		}
		page := &screen{terminal: terminal}
		c.App.Writer = page
		failure := action(c)
		c.App.Writer = terminal
		if err := page.show(pager, c.App.ErrWriter); err != nil {
			return err
		}
		return failure
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

// show runs the pager. Without one that runs, the text goes to the terminal.
func (s *screen) show(pager string, stderr io.Writer) error {
	if s.Len() == 0 {
		return nil
	}
	cmd := exec.Command("sh", "-c", pager)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(s.Bytes()), s.terminal, stderr
	if _, set := os.LookupEnv("LESS"); !set {
		cmd.Env = append(os.Environ(), "LESS=FRX") // less ends at once if the text fits on the screen
	}
	if err := cmd.Run(); cmd.ProcessState == nil || slices.Contains(notRun, cmd.ProcessState.ExitCode()) {
		if _, err := s.WriteTo(s.terminal); err != nil {
			return fmt.Errorf("write to the terminal: %w", err)
		}
	} else if err != nil && cmd.ProcessState.Exited() {
		return fmt.Errorf("the pager %q: %w", pager, err)
	}
	return nil
}

// notRun are the exit codes of sh for a command that it cannot run.
var notRun = []int{126, 127}
