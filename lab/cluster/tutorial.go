package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Tutorial and AttachTutorial are the pages whose commands are run in labs whose control host is a machine.
const (
	Tutorial       = "docs/start/tutorial.md"
	AttachTutorial = "docs/start/attach.md"
)

// step is a command of a tutorial, with the user who types it and lines that it prints.
type step struct {
	prompt, command string
	prints          []string
}

// The prompts of a tutorial: root and the user on the control host, and the login user on the control node.
const (
	asRootPrompt    = "root# "
	asUserPrompt    = "eiffel$ "
	onControlPrompt = "control$ "
)

// stepsOf returns the commands of a section of a page with this text. Lines of code below a command are its output,
// except lines with "…".
func stepsOf(page, section string) ([]step, error) {
	_, rest, found := strings.Cut(page, "\n## "+section+"\n")
	text, _, _ := strings.Cut(rest, "\n## ")
	var steps []step
	printing := false
	for line := range strings.Lines(text) {
		line, code := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "    ")
		typed := step{}
		for _, prompt := range []string{asRootPrompt, asUserPrompt, onControlPrompt} {
			if command, ok := strings.CutPrefix(line, prompt); ok && code {
				typed = step{prompt: prompt, command: command}
			}
		}
		switch {
		case typed.command != "":
			steps, printing = append(steps, typed), true
		case !code:
			printing = false
		case printing && line != "…":
			steps[len(steps)-1].prints = append(steps[len(steps)-1].prints, line)
		}
	}
	if !found || len(steps) == 0 {
		return nil, fmt.Errorf("there are no commands in a section %q", section)
	}
	return steps, nil
}

// quantities matches numbers and durations, which differ from run to run.
var quantities = regexp.MustCompile(`[0-9][0-9hms.]*`)

// printed reports whether a line is in the output of a command; numbers and blanks may differ.
func printed(out, line string) bool {
	same := func(s string) string { return strings.Join(strings.Fields(quantities.ReplaceAllString(s, "0")), " ") }
	return strings.Contains(same(out), same(line))
}

// Follow runs the commands of a section of a tutorial on a control host that is a machine, each as the user whom the
// prompt shows. Each must succeed and print the lines on the page. The lab's log gets the whole output.
func (l *Lab) Follow(ctx context.Context, page, section string) error {
	text, err := os.ReadFile(filepath.Join(l.cfg.Checkout, page))
	if err != nil {
		return err
	}
	steps, err := stepsOf(string(text), section)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	for _, s := range steps {
		begun := time.Now()
		out, err := l.typed(ctx, s).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %s: %w\n%s", page, s.command, err, out)
		}
		for _, line := range s.prints {
			if !printed(string(out), line) {
				return fmt.Errorf("%s: %s does not print %q:\n%s", page, s.command, line, out)
			}
		}
		l.cfg.Log.Info("tutorial", "command", s.command, "took", time.Since(begun).Round(time.Second), "printed", string(out))
	}
	return nil
}

// typed returns a step as a command.
func (l *Lab) typed(ctx context.Context, s step) *exec.Cmd {
	switch s.prompt {
	case asRootPrompt:
		return l.Host.Command(ControlHostName, "sh", "-c", s.command)
	case onControlPrompt:
		return l.Command(ControlNodeName, "su", "--login", l.Declaration.LoginUser, "--command", s.command)
	}
	return l.onMachine(ctx, l.prompt(), "sh", "-c", s.command)
}

// prompt returns the folder in which the control host's user types: the cluster directory, once it is declared.
func (l *Lab) prompt() string {
	if l.Declaration.ClusterName == "" {
		return "/"
	}
	return machineSite
}
