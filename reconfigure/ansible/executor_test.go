package ansible

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/process/sockets"
)

func TestCommandLineAndEnvironment(t *testing.T) {
	var log bytes.Buffer
	r := New(Config{Dir: "/opt/eiffel", Log: &log, Env: []string{
		"PATH=/usr/bin", "HOME=/nonexistent", "LC_ALL=de_DE", "ANSIBLE_HOST_KEY_CHECKING=false",
		"ANSIBLE_STDOUT_CALLBACK=json",
	}})
	c, err := executor{
		Runner: r, playbook: sitePlaybook,
		scratch: scratch{
			home: "/state/ansible", dir: "/state/ansible/run-1", sockets: sockets.Dir{Path: "/tmp/reconfigure-1"},
		},
	}.command()
	if err != nil {
		t.Fatal(err)
	}
	argv := append([]string{c.Path}, c.Args...)
	if diff := cmp.Diff([]string{
		"ansible-playbook", "--extra-vars=@/state/ansible/run-1/vars.json",
		"--inventory=/state/ansible/run-1/inventory.json", "site.yml",
	}, argv); diff != "" {
		t.Errorf("argv (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"PATH=/usr/bin",
		"HOME=/nonexistent",
		"ANSIBLE_CONFIG=/opt/eiffel/ansible/ansible.cfg",
		"LC_ALL=C.UTF-8",
		"ANSIBLE_HOME=/state/ansible",
		"ANSIBLE_LOCAL_TEMP=/state/ansible/run-1",
		"ANSIBLE_SSH_CONTROL_PATH_DIR=/tmp/reconfigure-1",
		"ANSIBLE_NOCOLOR=1",
		"RECONFIGURE_EVENTS=/state/ansible/run-1/events",
	}, c.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if c.Dir != "/opt/eiffel/ansible" || c.Stdin != nil || c.Grace == 0 {
		t.Errorf("directory %q, standard input %v, grace %v", c.Dir, c.Stdin, c.Grace)
	}
}

// TestTheConnectionsOfACancelledRunAreEnded uses an ssh that records its arguments.
func TestTheConnectionsOfACancelledRunAreEnded(t *testing.T) {
	dir, sockets := t.TempDir(), t.TempDir()
	noted := filepath.Join(dir, "noted")
	write(t, filepath.Join(dir, "ssh"), "#!/bin/sh\necho \"$@\" >"+noted+"\n")
	if err := os.Chmod(filepath.Join(dir, "ssh"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	socket := filepath.Join(sockets, "node01")
	write(t, socket, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := endMasters(ctx, sockets); err != nil {
		t.Error(err)
	}
	want := "-F /dev/null -o ControlPath=" + socket + " -O exit any\n"
	if got, err := os.ReadFile(noted); err != nil || string(got) != want {
		t.Errorf("ssh was called with %q, want %q (%v)", got, want, err)
	}
}
