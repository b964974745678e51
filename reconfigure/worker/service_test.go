package worker

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestServiceNames expects the names that systemd-escape --path prints.
func TestServiceNames(t *testing.T) {
	for path, want := range map[string]string{
		"/":                "-",
		"/opt/eiffel":      "opt-eiffel",
		"/srv/a b-c/.x":    `srv-a\x20b\x2dc-.x`,
		"/opt/ümlaut":      `opt-\xc3\xbcmlaut`,
		"/.hidden/x":       `\x2ehidden-x`,
		"/home/a_b/v1.2:3": "home-a_b-v1.2:3",
	} {
		if got := service(path); got != "reconfigure-worker@"+want+".service" {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// shippedUnit returns the text of a shipped unit.
func shippedUnit(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestTheUnitIsTheServiceThatIsStarted(t *testing.T) {
	name := strings.Replace(service("/opt/eiffel"), "opt-eiffel", "", 1)
	text := shippedUnit(t, name)
	rules, err := os.ReadFile(filepath.Join("..", "..", "systemd", "50-reconfigure-worker.rules"))
	if err != nil || !strings.Contains(string(rules), `"`+strings.TrimSuffix(name, ".service")+`"`) {
		t.Errorf("polkit's rules do not name it, error %v", err)
	}
	for line, why := range map[string]string{
		"ExecStart=%f/bin/reconfigure --dir %f worker --stay": "else it could end at the very moment in which a call " +
			"finds it active",
		"StartLimitIntervalSec=0": "else systemd would refuse a start after many",
		"Restart=always": "a worker that died, or ended since its program was replaced, would leave its requests to " +
			"the next call",
		"KillMode=mixed": "else Terraform would be killed along with the " +
			"worker, and leave half of a state",
		"TimeoutStopSec=20min":  "else it would be killed in the middle of an apply",
		"SuccessExitStatus=130": "else it would count as failed when it is stopped",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the unit has no %s: %s", line, why)
		}
	}
}

// TestTheUnitsAreWhatSystemdTakes makes systemd parse the units, for which systemd need not run. systemd reports each
// key that it does not know or accept. It has no other units than the targets on which each service depends, since it
// would also report units of other packages.
func TestTheUnitsAreWhatSystemdTakes(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatalf("systemd's own tools have to be there: %v", err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "reconfigure"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	units, err := filepath.Glob(filepath.Join("..", "..", "systemd", "*@.*"))
	if err != nil || len(units) != 3 {
		t.Fatalf("units %v, error %v", units, err)
	}
	_, instance, _ := strings.Cut(service(dir), "@")
	argv := []string{"verify", "--man=no"}
	for _, unit := range units {
		name, kind, _ := strings.Cut(filepath.Base(unit), "@")
		file := filepath.Join(dir, name+"@"+strings.TrimSuffix(instance, ".service")+kind)
		if err := os.WriteFile(file, []byte(shippedUnit(t, filepath.Base(unit))), 0o644); err != nil {
			t.Fatal(err)
		}
		argv = append(argv, file)
	}
	for _, target := range []string{"sysinit", "basic", "network-online", "shutdown", "timers", "time-set", "time-sync"} {
		file := filepath.Join(dir, target+".target")
		if err := os.WriteFile(file, []byte("[Unit]\nDefaultDependencies=no\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), analyze, argv...)
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil || said.Len() > 0 {
		t.Errorf("error %v: %s", err, said.String())
	}
}

func TestAWorkerNoticesThatItsProgramIsAnotherOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reconfigure")
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(path)
	was, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	p := program{path, was}
	if p.replaced() {
		t.Error("it is the same")
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if p.replaced() {
		t.Error("there is none: one is about to come")
	}
	write(path)
	if !p.replaced() {
		t.Error("it is another one")
	}
	self, err := thisProgram()
	if err != nil || self.replaced() {
		t.Errorf("this very program was replaced, error %v", err)
	}
}
