package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

func TestCommandsRunHereOrBehindTheRemoteCommand(t *testing.T) {
	args := []string{"update", "NodeName=c[001-003]", "Reason=reconfigure: it's late"}
	words := append([]string{"scontrol"}, args...)
	got := build(nil, words)
	if diff := cmp.Diff(process.Cmd{Path: "scontrol", Args: args}, got); diff != "" {
		t.Error(diff)
	}
	got = build([]string{"ssh", "-o", "BatchMode=yes", "debian@192.0.2.1"}, words)
	want := process.Cmd{Path: "ssh", Args: []string{"-o", "BatchMode=yes", "debian@192.0.2.1",
		"scontrol", "update", "'NodeName=c[001-003]'", `'Reason=reconfigure: it'\''s late'`}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestArgumentsSurviveTheForcedCommand uses a scontrol that records its arguments.
func TestArgumentsSurviveTheForcedCommand(t *testing.T) {
	s := newTools(t, map[string]string{"scontrol": `printf '%s\n' "$@" > "$0.args"`})
	nasty := "$HOME `id` \\ * ; & | > < # ~ (a) {b} !c é"
	if err := s.client(false).Down(t.Context(), nodeset.Of("c001", "c003"), nasty); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(s.dir, "scontrol.args"))
	want := "update\nNodeName=c[001,003]\nState=DOWN\nReason=reconfigure: $HOME id \\ * ; & | > < # ~ (a) {b} !c é\n"
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// slurmctld plays Slurm's part. By default, it answers like Slurm 22.05.
type slurmctld struct {
	t     *testing.T
	down  bool
	knows nodeset.NodeSet
	calls [][]string
	done  []string // the updates, in order
	jobs  string   // squeue's list of them
	nodes string   // scontrol's list, as JSON
}

func (s *slurmctld) client() *Client { return New(Config{Run: s.run}) }

func (s *slurmctld) run(ctx context.Context, cmd process.Cmd) error {
	s.calls = append(s.calls, append([]string{cmd.Path}, cmd.Args...))
	if err := ctx.Err(); err != nil {
		return err
	}
	switch words := cmd.Path + " " + strings.Join(cmd.Args, " "); {
	case s.down:
		return s.refuse(cmd, "Unable to contact slurm controller (connect failure)")
	case words == "scontrol ping":
		return nil
	case cmd.Path == "states":
		_, err := fmt.Fprintf(cmd.Stdout, "\n-- %s\n%s\n-- completed\n", byScontrol, s.nodes)
		return err
	case strings.HasPrefix(words, "squeue --noheader --all --Format=jobid"):
		_, err := cmd.Stdout.Write([]byte(s.jobs))
		return err
	case strings.HasPrefix(words, "scontrol update JobId="):
		s.done = append(s.done, strings.Join(cmd.Args[1:], " "))
		return nil
	case strings.HasPrefix(words, "scontrol update "):
		return s.update(cmd)
	}
	return s.refuse(cmd, "unrecognized option")
}

func (s *slurmctld) refuse(cmd process.Cmd, text string) error {
	return &process.Error{Path: cmd.Path, Code: 1, Stderr: text}
}

// update takes names in the order of the hostlist and stops at the first that it does not know, as recorded from 22.05.
func (s *slurmctld) update(cmd process.Cmd) error {
	nodes, err := nodeset.Parse(strings.TrimPrefix(cmd.Args[1], "NodeName="))
	if err != nil {
		s.t.Fatal(err)
	}
	for node := range nodes.All() {
		if !s.knows.Contains(node) {
			return s.refuse(cmd, "slurm_update error: Invalid node name specified")
		}
		s.done = append(s.done, node+" "+strings.Join(cmd.Args[2:], " "))
	}
	return nil
}

func TestPingReportsWhetherSlurmctldIsUp(t *testing.T) {
	s := &slurmctld{t: t}
	if err := s.client().Ping(t.Context()); err != nil {
		t.Error(err)
	}
	s.down = true
	if err := s.client().Ping(t.Context()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v", err)
	}
}

func TestCancelledIsNotUnreachable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &slurmctld{t: t, knows: nodeset.Of("c1")}
	_, states := s.client().States(ctx, nodeset.NodeSet{})
	for name, err := range map[string]error{
		"ping": s.client().Ping(ctx), "states": states, "down": s.client().Down(ctx, nodeset.Of("c1"), "x"),
	} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestOutputOfAFailedToolIsInTheError(t *testing.T) {
	c := newTools(t, map[string]string{"scontrol": "echo sudo: a password is required >&2; exit 1"}).client(false)
	if err := c.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "sudo: a password is required") {
		t.Errorf("error %v", err)
	}
}
