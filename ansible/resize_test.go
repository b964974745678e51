package site_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// resize runs resize.yml in a cluster directory whose bin/reconfigure is a script. It returns Ansible's output, whether
// it succeeded, and the arguments of the script. Tasks without a timeout get one of 5 seconds.
func resize(t *testing.T, script string, args ...string) (said string, well bool, called string) {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{"resize.yml", "ansible.cfg", "callback_plugins/reconfigure_events.py"} {
		write(t, filepath.Join(dir, "ansible", file),
			strings.Replace(read(t, file), "task_timeout = 60", "task_timeout = 5", 1))
	}
	program := filepath.Join(dir, "bin", "reconfigure")
	write(t, program, "#!/bin/sh\necho \"$@\" >"+filepath.Join(dir, "called")+"\n"+script)
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "ansible-playbook", append(args, "resize.yml")...)
	cmd.Dir = filepath.Join(dir, "ansible")
	cmd.Env = append(os.Environ(), "ANSIBLE_HOME="+filepath.Join(dir, "home"), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	return string(out), err == nil,
		strings.ReplaceAll(strings.TrimSpace(read(t, filepath.Join(dir, "called"))), dir, "DIR")
}

func TestResizePlaybook(t *testing.T) {
	const all = "--dir DIR --json resize --drain-timeout 24h"
	for name, tc := range map[string]struct {
		script string
		args   []string
		called string
		well   bool
		said   []string // parts of Ansible's expected output
	}{
		"nodes changed": {
			`echo '{"request":7,"verdicts":[{"node":"node01","status":"unchanged"},` +
				`{"node":"node02","action":"create","status":"done"}],"code":"done"}'`,
			nil, all, true, []string{"changed=1 "},
		},
		"jobs are waited for": {
			`sleep 7; echo '{"verdicts":[],"code":"done"}'`,
			nil, all, true, []string{"changed=0 "},
		},
		"nothing to do": {
			`echo '{"request":7,"verdicts":[{"node":"node01","status":"unchanged"}],"code":"done"}'`,
			nil, all, true, []string{"changed=0 "},
		},
		"no verdicts": {
			`echo '{"verdicts":[],"code":"done"}'`,
			nil, all, true, []string{"changed=0 "},
		},
		"one group with a timeout": {
			`echo '{"verdicts":[],"code":"done"}'`,
			[]string{"-e", "group=gpu", "-e", "drain_timeout=1h"}, "--dir DIR --json resize --drain-timeout 1h gpu",
			true, []string{"changed=0 "},
		},
		"two groups": {
			`echo '{"verdicts":[],"code":"done"}'`,
			[]string{"-e", `{"group": ["gpu", "big"]}`}, all + " gpu big", true, []string{"changed=0 "},
		},
		"a dry run": {
			`echo '{"nodes":[{"node":"node02","action":"create"}]}'`,
			[]string{"--check"}, all + " --dry-run", true, []string{"changed=1 "},
		},
		"a dry run with nothing to do": {
			`echo '{"nodes":[]}'`,
			[]string{"--check"}, all + " --dry-run", true, []string{"changed=0 "},
		},
		"done in part": {
			`echo '{"verdicts":[{"node":"node02","status":"done"},` +
				`{"node":"node03","status":"failed","reason":"no valid host"}],"code":"partial"}'
			echo '{"level":"INFO","msg":"running"}' >&2
			echo '{"level":"ERROR","msg":"request 7: not as asked","exit_code":3}' >&2; exit 3`,
			nil, all, false, []string{"changed=1 ", `"msg": "request 7: not as asked\nnode03: no valid host"`},
		},
		"wrong usage": {
			`echo '{"level":"ERROR","msg":"there is no node group \"gpus\"","exit_code":2}' >&2; exit 2`,
			nil, all, false, []string{"changed=0 ", `"msg": "there is no node group \"gpus\""`},
		},
		"killed": {
			`echo Killed >&2; kill -9 $$`,
			nil, all, false, []string{"changed=0 ", `"msg": "Killed"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			said, well, called := resize(t, tc.script+"\n", tc.args...)
			if diff := cmp.Diff(tc.called, called); diff != "" {
				t.Errorf("called (-want +got):\n%s", diff)
			}
			if well != tc.well {
				t.Errorf("success: %v\n%s", well, said)
			}
			for _, words := range tc.said {
				if !strings.Contains(said, words) {
					t.Errorf("Ansible did not print %s:\n%s", words, said)
				}
			}
		})
	}
}

// TestResizePlaybookUnderstandsReconfigure runs the real command, which reports that there is no such node group.
func TestResizePlaybookUnderstandsReconfigure(t *testing.T) {
	program := filepath.Join(t.TempDir(), "reconfigure")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program,
		"../cmd/reconfigure").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said, well, _ := resize(t, "mkdir \"$2/group_vars\"\ncp "+filepath.Join(mustAbs(t, ".."),
		"group_vars/all.yml")+" \"$2/group_vars/\"\nexec "+program+" \"$@\"\n", "-e", "group=strange")
	if well || !strings.Contains(said, `there is no node group \"strange\"`) {
		t.Errorf("success: %v\n%s", well, said)
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	absolute, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return absolute
}
