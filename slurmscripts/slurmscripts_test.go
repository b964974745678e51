// Package slurmscripts_test starts the rendered scripts as slurmctld does. Programs that replace ssh, sinfo and
// scontrol record their calls.
package slurmscripts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/slurmexec"
	"github.com/eiffel-hpc/eiffel/reconfigure/gate"
)

// recorder replaces a program. It records its call, and waits while a file "hang" exists. As ssh, it exits with the
// next status in the file "exits", if any. As sinfo, it prints the file "waiting", and fails if there is none.
const recorder = `#!/usr/bin/python3 -IS
import json, os, sys, time
name, dir = os.path.basename(__file__), os.path.dirname(os.path.dirname(__file__))
stdin = sys.stdin.read() if name == "ssh" else ""
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
call = {"args": sys.argv[1:], "stdin": stdin, "blocked": int(status["SigBlk"], 16), "pid": os.getpid(),
        "group": os.getpgrp(), "session": os.getsid(0),
        "open": [os.path.exists("/proc/self/fd/%d" % fd) for fd in (0, 1, 2)], "conf": os.environ.get("SLURM_CONF")}
with open(dir + "/" + name + ".calls", "a") as calls:
    calls.write(json.dumps(call) + "\n")
while os.path.exists(dir + "/hang"):
    time.sleep(0.01)
if name == "ssh" and os.path.exists(dir + "/exits"):
    status, *rest = open(dir + "/exits").read().split()
    if rest:
        open(dir + "/exits", "w").write(" ".join(rest))
    print("ssh prints\ntwo lines")
    sys.exit(int(status))
if name == "sinfo":
    print(open(dir + "/waiting").read(), end="")
else:
    print("request 7 accepted")
`

type call struct {
	Args    []string
	Stdin   string
	Blocked uint64
	PID     int
	Group   int
	Session int
	Open    []bool
	Conf    string
}

// scripts are the rendered scripts for one test.
type scripts struct {
	*testing.T
	dir string
	job int // of launch.sh
}

const (
	conf       = "/etc/slurm/slurm.conf"
	hostlist   = "node[01-02,07],gpu-1"
	resumeFile = `{"jobs":[{"job_id":4,"nodes":"node[01-02]"}],"all_nodes":"node[01-02,07],gpu-1"}`
	// somewhere is replaced with each test's folder in the rendered scripts. So they are rendered only once, since
	// Ansible takes longer than all the tests.
	somewhere = "/SOMEWHERE"
)

// shared is made by TestMain for all tests, which do not change it.
var shared struct {
	launcher slurmexec.Launcher
	rendered string // folder
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "slurmscripts-")
	if err == nil {
		err = prepare(dir)
	}
	status := 1
	if err == nil {
		status = m.Run()
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func prepare(dir string) (err error) {
	if shared.launcher, err = slurmexec.Build(context.Background(), dir); err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	shared.rendered = filepath.Join(dir, "scripts")
	vars, err := json.Marshal(map[string]any{
		"declared_user":                 "eiffel",
		"declared_control_hosts":        []any{controlHost("192.0.2.10", 2222), controlHost("192.0.2.11", 22)},
		"slurm_scripts_directory":       somewhere + "/scripts",
		"slurm_scripts_key_directory":   somewhere + "/keys",
		"slurm_scripts_node_file":       somewhere + "/the node",
		"slurm_scripts_up":              somewhere + "/up",
		"slurm_scripts_prolog":          somewhere + "/own prolog",
		"slurm_scripts_launch_limit":    900,
		"slurm_scripts_environment":     "PATH=" + somewhere + "/bin:/usr/bin:/bin",
		"slurm_scripts_pauses":          []int{0, 0},
		"slurm_scripts_connect_timeout": 10,
		"slurm_scripts_answer_timeout":  60,
		"slurm_scripts_log":             somewhere + "/reconfigure.log",
	})
	playbook := fmt.Sprintf(`
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.template: {src: "{{ item }}", dest: "%s/{{ item | basename | splitext | first }}", mode: "0755"}
      with_fileglob: "%s/*.j2"
`, shared.rendered, here)
	err = errors.Join(err, os.Mkdir(shared.rendered, 0o755), os.WriteFile(filepath.Join(dir, "vars.json"), vars, 0o644),
		os.WriteFile(filepath.Join(dir, "playbook.yml"), []byte(playbook), 0o644))
	if err != nil {
		return err
	}
	cmd := exec.Command("ansible-playbook", "--inventory", "localhost,", "--connection", "local", "--extra-vars",
		"@vars.json", "playbook.yml")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ANSIBLE_HOME="+dir, "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ansible-playbook (Debian's package ansible-core): %w\n%s", err, out)
	}
	return nil
}

func controlHost(address string, port int) map[string]any {
	return map[string]any{"address": address, "port": port}
}

func install(t *testing.T) *scripts {
	t.Helper()
	s := &scripts{T: t, dir: t.TempDir()}
	for _, program := range []string{"ssh", "sinfo", "scontrol"} {
		s.write(filepath.Join("bin", program), recorder)
	}
	rendered, err := os.ReadDir(shared.rendered)
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range rendered {
		text, err := os.ReadFile(filepath.Join(shared.rendered, script.Name()))
		if err != nil {
			t.Fatal(err)
		}
		s.write(filepath.Join("scripts", script.Name()), strings.ReplaceAll(string(text), somewhere, s.dir))
	}
	t.Cleanup(s.end)
	return s
}

// end waits for the end of the background part. It sends no signals, since a wrong script may run in the session of
// another process.
func (s *scripts) end() {
	if err := os.Remove(filepath.Join(s.dir, "hang")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Error(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); slices.ContainsFunc(s.calls("ssh"),
		func(c call) bool { return runs(c.PID) }); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Errorf("the background part has not ended: %+v", s.calls("ssh"))
			return
		}
	}
}

// runs reports whether the process exists and is no zombie, since init may collect zombies late.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, ok := strings.Cut(string(stat), ") ")
	return err == nil && ok && !strings.HasPrefix(state, "Z")
}

func (s *scripts) write(name, content string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		s.Fatal(err)
	}
}

func (s *scripts) logFile() string { return filepath.Join(s.dir, "reconfigure.log") }

func (s *scripts) log() string {
	text, _ := os.ReadFile(s.logFile())
	return string(text)
}

func (s *scripts) calls(program string) []call {
	s.Helper()
	text, _ := os.ReadFile(filepath.Join(s.dir, program+".calls"))
	var all []call
	for line := range strings.Lines(string(text)) {
		var c call
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			s.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// start runs a script until it ends. Its background part may still run.
func (s *scripts) start(script, argument, resumeFile string) {
	s.Helper()
	opts := slurmexec.Options{Conf: conf}
	if resumeFile != "" {
		s.write("resume.json", resumeFile)
		opts.ResumeFile = filepath.Join(s.dir, "resume.json")
	}
	cmd := shared.launcher.Command(s.Context(), opts, filepath.Join(s.dir, "scripts", script), argument)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%s: %v: %s", script, err, out)
	}
}

func (s *scripts) until(what string, holds func() bool) {
	s.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("not within two minutes: %s; the log:\n%s", what, s.log())
		}
	}
}

func (s *scripts) untilLogged(words string) {
	s.Helper()
	s.until("the log says "+words, func() bool { return strings.Contains(s.log(), words) })
}

// untilGone waits until the background part has ended.
func (s *scripts) untilGone() {
	s.Helper()
	s.until("the background part has ended", func() bool {
		return !slices.ContainsFunc(s.calls("ssh"), func(c call) bool { return runs(c.Session) })
	})
}

func TestRequestsOfSlurmReachTheControlHost(t *testing.T) {
	for _, tc := range []struct{ name, script, resumeFile, want, request string }{
		{"a resume with its jobs", "resume.sh", resumeFile, "resume", "resume --jobs " + hostlist},
		{"a resume without jobs", "resume.sh", "", "resume", "resume " + hostlist},
		{"a suspend", "suspend.sh", "", "suspend", "suspend " + hostlist},
		{"a reboot of a list of nodes", "reboot.sh", "", "reboot", "update " + hostlist},
		{"a resume that failed", "resume_fail.sh", "", "resume_fail", "resume-fail " + hostlist},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := install(t)
			s.start(tc.script, hostlist, tc.resumeFile)
			s.untilLogged("] " + tc.want + " " + hostlist + ": handed over: request 7 accepted\n")
			s.untilGone()
			calls := s.calls("ssh")
			if len(calls) != 1 || calls[0].Stdin != tc.resumeFile || calls[0].Conf != conf {
				t.Fatalf("calls of ssh: %+v", calls)
			}
			request := calls[0].Args[len(calls[0].Args)-1]
			if request != tc.request {
				t.Errorf("the gate gets %q, want %q", request, tc.request)
			}
			if call, err := gate.Parse(gate.Key{Role: gate.Controller}, request); err != nil {
				t.Errorf("the gate refuses it: %+v, %v", call, err)
			}
			for _, c := range s.calls("scontrol") {
				if !slices.Equal(c.Args, []string{"show", "hostnames", hostlist}) {
					t.Errorf("scontrol was called: %q", c.Args)
				}
			}
		})
	}
}

// TestACheckCallsEachControlHostOnce starts hand_over.sh as slurm_commands.py does.
func TestACheckCallsEachControlHostOnce(t *testing.T) {
	const unreached = "control host 192.0.2.10 did not answer (port 2222, exit status 255): ssh prints\ntwo lines\n"
	for name, tc := range map[string]struct {
		exits string
		calls int
		fails bool
		said  string
	}{
		"the first accepts":  {"0", 1, false, ""},
		"the second accepts": {"255 0", 2, false, unreached},
		"none accepts": {"255 127", 2, true, unreached + "control host 192.0.2.11 could not accept the request (port 22, " +
			"exit status 127): ssh prints\ntwo lines\n"},
		"the first refuses": {"2", 1, true,
			"control host 192.0.2.10 refused the request (port 2222, exit status 2): ssh prints\ntwo lines\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := install(t)
			s.write("exits", tc.exits)
			var said strings.Builder
			cmd := exec.CommandContext(t.Context(), filepath.Join(s.dir, "scripts", "hand_over.sh"), "check", "control")
			cmd.Env = []string{"PATH=" + filepath.Join(s.dir, "bin") + ":/usr/bin:/bin"}
			cmd.Stderr = &said
			err := cmd.Run()
			if (err != nil) != tc.fails || said.String() != tc.said {
				t.Errorf("error %v, %q", err, &said)
			}
			calls := s.calls("ssh")
			if len(calls) != tc.calls {
				t.Fatalf("calls of ssh: %+v", calls)
			}
			s.hasOptions(calls[0])
			request := calls[0].Args[len(calls[0].Args)-1]
			call, err := gate.Parse(gate.Key{Role: gate.Controller}, request)
			if err != nil || call.Verb != gate.Status {
				t.Errorf("the gate gets %q: %+v, %v", request, call, err)
			}
			if len(s.calls("scontrol")) > 0 {
				t.Error("scontrol was called")
			}
		})
	}
}

func TestARebootProgramOnANodeRequestsThatNode(t *testing.T) {
	s := install(t)
	s.write("the node", "node01\n")
	// slurmd starts it as slurmctld does, but without an argument; see TestSSHStartsClean for the environment.
	cmd := shared.launcher.Command(s.Context(), slurmexec.Options{Conf: conf},
		filepath.Join(s.dir, "scripts", "reboot.sh"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.untilLogged("] reboot node01: handed over: request 7 accepted\n")
	s.untilGone()
}

func TestFeaturesOfARebootAreIgnored(t *testing.T) {
	s := install(t)
	cmd := shared.launcher.Command(s.Context(), slurmexec.Options{Conf: conf},
		filepath.Join(s.dir, "scripts", "reboot.sh"), "p1,p2", "knl,quad")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.untilLogged("] reboot p1,p2: handed over: request 7 accepted\n")
	s.untilGone()
}

func TestNodesOfARebootThatCannotBeHandedOverAreDrained(t *testing.T) {
	s := install(t)
	s.write("exits", "255")
	s.start("reboot.sh", hostlist, "")
	s.untilLogged("given up, and Slurm was told")
	s.untilGone()
	var told [][]string
	for _, c := range s.calls("scontrol") {
		told = append(told, c.Args)
	}
	const reason = "reason=reconfigure: control host 192.0.2.11 did not answer"
	want := [][]string{{"update", "nodename=" + hostlist, "state=drain", reason}}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("scontrol (-want +got):\n%s", diff)
	}
}

func TestSSHStartsClean(t *testing.T) {
	const (
		older = "#!/bin/sh\ncase $1 in --default-signal*) exit 125 ;; esac\nexec /usr/bin/env \"$@\"\n"
		newer = "#!/bin/sh\nexec /usr/bin/env \"$@\"\n"
	)
	for name, tc := range map[string]struct{ shell, env string }{
		"Debian's sh, which unblocks signals":            {"/bin/dash", newer},
		"Red Hat's sh, which leaves signals as they are": {"/bin/bash", newer},
		"Ubuntu 20.04's sh, without --default-signal":    {"/bin/dash", older},
		"EL8's sh, without --default-signal":             {"/bin/bash", older},
	} {
		t.Run(name, func(t *testing.T) {
			s, shell := install(t), tc.shell
			s.write("bin/env", tc.env)
			for _, script := range []string{"resume.sh", "hand_over.sh"} {
				text, err := os.ReadFile(filepath.Join(s.dir, "scripts", script))
				if err != nil {
					t.Fatal(err)
				}
				s.write(filepath.Join("scripts", script),
					strings.Replace(string(text), "#!/bin/sh\n", "#!"+shell+"\n", 1))
			}
			s.start("resume.sh", hostlist, resumeFile)
			s.untilLogged("handed over")
			s.untilGone()
			c := s.calls("ssh")[0]
			if c.Blocked != 0 {
				t.Errorf("signals are blocked: %x", c.Blocked)
			}
			if diff := cmp.Diff([]bool{true, true, true}, c.Open); diff != "" {
				t.Errorf("descriptors 0 to 2 (-want +got):\n%s", diff)
			}
			if c.Session == c.PID || c.Session == session(t) {
				t.Errorf("ssh runs in session %d, the test in %d", c.Session, session(t))
			}
			s.hasOptions(c)
		})
	}
}

func (s *scripts) hasOptions(c call) {
	s.Helper()
	for _, want := range []string{
		"BatchMode=yes", "StrictHostKeyChecking=yes", "UserKnownHostsFile=" + s.dir + "/keys/known_hosts",
		"GlobalKnownHostsFile=/dev/null",
		"IdentityFile=" + s.dir + "/keys/id_ed25519", "IdentitiesOnly=yes", "ConnectTimeout=10",
		"2222", "eiffel@192.0.2.10",
	} {
		if !slices.Contains(c.Args, want) {
			s.Errorf("ssh was not called with %s: %q", want, c.Args)
		}
	}
}

func session(t *testing.T) int {
	t.Helper()
	sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	return int(sid)
}

func TestScriptsReturnWhileTheControlHostHangs(t *testing.T) {
	for _, script := range []string{"resume.sh", "suspend.sh", "resume_fail.sh"} {
		t.Run(script, func(t *testing.T) {
			s := install(t)
			s.write("hang", "")
			s.start(script, hostlist, "") // it would hang if the script waited for ssh
			s.until("ssh is called", func() bool { return len(s.calls("ssh")) > 0 })
			if s.log() != "" {
				t.Errorf("already in the log: %s", s.log())
			}
			if err := os.Remove(filepath.Join(s.dir, "hang")); err != nil {
				t.Fatal(err)
			}
			s.untilLogged("handed over")
			s.untilGone()
		})
	}
}

func TestTheCopyOfTheResumeFileIsRemoved(t *testing.T) {
	s := install(t)
	before, err := filepath.Glob("/tmp/reconfigure.*")
	if err != nil {
		t.Fatal(err)
	}
	s.start("resume.sh", hostlist, resumeFile)
	s.untilLogged("handed over")
	s.untilGone()
	after, err := filepath.Glob("/tmp/reconfigure.*")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestConnectionFailuresAreRetried(t *testing.T) {
	s := install(t)
	s.write("exits", "255 124 0")
	s.start("resume.sh", hostlist, resumeFile)
	s.untilLogged("handed over: ssh prints two lines")
	s.untilGone()
	for i, c := range s.calls("ssh") {
		host, port := "eiffel@192.0.2.10", "2222"
		if i == 1 {
			host, port = "eiffel@192.0.2.11", "22"
		}
		if c.Stdin != resumeFile || !slices.Contains(c.Args, host) || !slices.Contains(c.Args, port) {
			t.Errorf("call %d of %s got %q", i, c.Args, c.Stdin)
		}
	}
	lines := strings.Split(strings.TrimSpace(s.log()), "\n")
	if len(s.calls("ssh")) != 3 || len(lines) != 3 ||
		!strings.Contains(lines[0], "did not answer (exit status 255): ssh prints two lines") {
		t.Errorf("%d calls of ssh, and in the log:\n%s", len(s.calls("ssh")), s.log())
	}
}

func TestNodesOfAResumeThatCannotBeHandedOverAreSetDown(t *testing.T) {
	const away, passing, refusal = "did not answer", "could not accept the request", "refused the request"
	for _, tc := range []struct {
		exits, reason string
		calls         int
		handedBack    bool
	}{
		{"255", away, 6, true},
		{"124", away, 6, true},
		{"137", away, 6, true},
		{"1", passing, 6, true},
		{"4", passing, 6, true},
		{"126", passing, 6, true},
		{"127", passing, 6, true},
		{"130", passing, 6, true},
		{"143", passing, 6, true},
		{"255 4 2", refusal, 3, false},
		{"2", refusal, 1, false},
		{"5", refusal, 1, false},
	} {
		t.Run(tc.exits, func(t *testing.T) {
			s := install(t)
			s.write("exits", tc.exits)
			s.write("waiting", hostlist+"\n")
			s.start("resume.sh", hostlist, resumeFile)
			s.untilLogged("given up, and Slurm was told of " + hostlist)
			s.untilGone()
			if n := len(s.calls("ssh")); n != tc.calls {
				t.Errorf("ssh was called %d times, want %d", n, tc.calls)
			}
			host := "192.0.2.10"
			if tc.calls%2 == 0 { // both are asked in turn
				host = "192.0.2.11"
			}
			s.told(hostlist, "reconfigure: control host "+host+" "+tc.reason, tc.handedBack)
		})
	}
}

// told checks the calls of scontrol: the nodes are set DOWN with that reason, and powered down if Slurm gets them back.
func (s *scripts) told(nodes, reason string, handedBack bool) {
	s.Helper()
	want := [][]string{{"update", "nodename=" + nodes, "state=down", "reason=" + reason}}
	if handedBack {
		want = append(want, []string{"update", "nodename=" + nodes, "state=power_down_force"})
	}
	var told [][]string
	for _, call := range s.calls("scontrol") {
		told = append(told, call.Args)
	}
	if diff := cmp.Diff(want, told); diff != "" {
		s.Errorf("scontrol (-want +got):\n%s", diff)
	}
}

func TestOnlyNodesThatSlurmWaitsForAreSetDown(t *testing.T) {
	s := install(t)
	s.write("exits", "255")
	s.write("waiting", "node[02,07]\n")
	s.start("resume.sh", hostlist, resumeFile)
	s.untilLogged("given up, and Slurm was told of node[02,07]")
	s.untilGone()
	s.told("node[02,07]", "reconfigure: control host 192.0.2.11 did not answer", true)
	asked := s.calls("sinfo")
	if len(asked) != 1 || !slices.Contains(asked[0].Args, "--states=powering_up") ||
		!slices.Contains(asked[0].Args, "--nodes="+hostlist) {
		t.Errorf("calls of sinfo: %+v", asked)
	}
}

func TestNodesThatMayBeUpAreNotSetDown(t *testing.T) {
	for name, tc := range map[string]struct {
		exits, log string
		answer     []string // of sinfo; none: it fails
	}{
		"the requests arrived and the answers were lost": {"255",
			"given up, but Slurm waits for none of the nodes any more", []string{""}},
		"the last request was refused": {"255 2", "given up, but Slurm waits for none of the nodes any more",
			[]string{""}},
		"sinfo fails": {"255", "given up, and Slurm could not be asked", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := install(t)
			s.write("exits", tc.exits)
			for _, answer := range tc.answer {
				s.write("waiting", answer)
			}
			s.start("resume.sh", hostlist, resumeFile)
			s.untilLogged(tc.log)
			s.untilGone()
			if told := s.calls("scontrol"); len(told) > 0 {
				t.Errorf("calls of scontrol: %+v", told)
			}
		})
	}
}

func TestASuspendThatCannotBeHandedOverIsOnlyLogged(t *testing.T) {
	s := install(t)
	s.write("exits", "255")
	s.start("suspend.sh", hostlist, "")
	s.untilLogged("given up: the instances may still exist")
	s.untilGone()
	if told := s.calls("scontrol"); len(told) > 0 {
		t.Errorf("calls of scontrol: %+v", told)
	}
}

func TestAnArgumentThatIsNoHostlistIsRefused(t *testing.T) {
	s := install(t)
	bad := []string{"", "-x", "node1;reboot", "$(reboot)", "`reboot`", "node1'", `node"1`, `node\1`, "node 1",
		"node1\nnode2", "node1&", "node*", "nöde1", "node{1,2}", "~"}
	for _, argument := range bad {
		s.start("resume.sh", argument, "")
	}
	s.until("all are refused", func() bool { return strings.Count(s.log(), ": refused: not a hostlist\n") == len(bad) })
	if n := strings.Count(s.log(), "\n"); n != len(bad) {
		t.Errorf("%d lines in the log for %d calls:\n%s", n, len(bad), s.log())
	}
	if calls := s.calls("ssh"); len(calls) > 0 {
		t.Errorf("calls of ssh: %+v", calls)
	}
}

func TestARequestIsMadeAlsoWithoutALog(t *testing.T) {
	s := install(t)
	s.write("reconfigure.log/a folder", "")
	s.start("resume.sh", hostlist, resumeFile)
	s.until("ssh is called", func() bool { return len(s.calls("ssh")) > 0 })
	s.untilGone()
}
