package site_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// program writes an executable script.
func program(t *testing.T, path, script string) {
	t.Helper()
	write(t, path, script)
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestTheShippedHealthChecksAreThose(t *testing.T) {
	entries, err := os.ReadDir("health")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != "run" {
			names = append(names, e.Name())
		}
	}
	if !slices.Equal(names, reconfigure.ShippedHealthChecks()) {
		t.Errorf("the folder has %v", names)
	}
}

// TestNoServiceStartsOnAnUnhealthyNode has a service manager that only records its calls. munge runs from the boot on.
func TestNoServiceStartsOnAnUnhealthyNode(t *testing.T) {
	dir := t.TempDir()
	hosts := map[string]struct {
		check  string // the exit status of the health check
		active string // that of a query for slurmd
		starts string
		event  string
		limit  int
	}{
		"unhealthy": {"93", "3", "", `"unhealthy": true`, 60},
		"healthy":   {"0", "3", "start", "", 60},
		"running":   {"93", "0", "", "", 60},
		"no-check":  {"127", "3", "", `"unhealthy": false`, 60},
		"no-start":  {"0", "3", "fails", `"unhealthy": false`, 60},
		"late":      {"0$(sleep 2)", "3", "", `"message": "slurmd is not started: `, 1},
	}
	limits := map[string]int{}
	for name, tc := range hosts {
		limits[name] = tc.limit
		status := 0
		if tc.starts == "fails" {
			status = 1
		}
		for _, manager := range []string{"systemctl", "service", "update-rc.d"} {
			program(t, filepath.Join(dir, name, manager), fmt.Sprintf(`#!/bin/sh
case " $* " in
  *" munge "*) exit 0 ;;
  *" is-active "* | *" status "*) exit %s ;;
  *" is-enabled "*) exit 1 ;;
  *" start "*) echo start >>%s/calls; exit %d ;;
esac
`, tc.active, filepath.Join(dir, name), status))
		}
		program(t, filepath.Join(dir, name, "check"), "#!/bin/sh\necho a disk is missing; exit "+tc.check)
	}
	vars, err := json.Marshal(limits)
	if err != nil {
		t.Fatal(err)
	}
	events := filepath.Join(dir, "events")
	said, err := local(t, strings.Join(slices.Collect(maps.Keys(hosts)), ","), fmt.Sprintf(`
    - name: Start slurmd
      converge:
        services: [{name: munge}, {name: slurmd, boot: false}]
        health: "%[1]s/{{ inventory_hostname }}/check"
        limit: "{{ limits[inventory_hostname] }}"
      environment: {PATH: "%[1]s/{{ inventory_hostname }}:%[2]s"}
      vars: {limits: %[3]s}
`, dir, os.Getenv("PATH"), vars), "RECONFIGURE_EVENTS="+events,
		"ANSIBLE_CALLBACK_PLUGINS="+mustAbs(t, "callback_plugins"), "ANSIBLE_CALLBACKS_ENABLED=reconfigure_events")
	if err == nil {
		t.Error("the playbook has succeeded")
	}
	for name, tc := range hosts {
		calls, _ := os.ReadFile(filepath.Join(dir, name, "calls"))
		if started := len(calls) > 0; started != (tc.starts != "") {
			t.Errorf("%s: calls: %q", name, calls)
		}
		var got string
		for line := range strings.Lines(read(t, events)) {
			if strings.Contains(line, `"host": "`+name+`"`) {
				got += line
			}
		}
		if failed := strings.Contains(got, `"failed"`); !strings.Contains(got, tc.event) || failed != (tc.event != "") ||
			strings.Contains(tc.event, "true") && !strings.Contains(got, `"message": "a disk is missing"`) {
			t.Errorf("%s: events:\n%s\n%s", name, got, said)
		}
	}
}

// checks writes the program that runs the checks, with these settings and scripts, and returns its path.
func checks(t *testing.T, settings string, scripts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	program(t, filepath.Join(dir, "run"), read(t, "health/run"))
	write(t, filepath.Join(dir, "declared"), settings)
	write(t, filepath.Join(dir, "memory"), "7500")
	for name, script := range scripts {
		program(t, filepath.Join(dir, "check-"+name), "#!/bin/sh\n"+script)
	}
	return filepath.Join(dir, "run")
}

func said(t *testing.T, path string, env ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Env = append(os.Environ(), env...)
	out, _ := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

func TestTheFirstFailedHealthCheckIsReported(t *testing.T) {
	settings := func(names string, limit int) string {
		return fmt.Sprintf("HEALTH_NODE='w01'\nHEALTH_CHECKS='%s'\nHEALTH_LIMIT='%d'\nHEALTH_GRES='gpu:2'\n",
			names, limit)
	}
	scripts := map[string]string{
		"good":   "exit 0",
		"bad":    "printf 'one\\ntwo\\n\\tthree\\nfour\\n'; exit 3",
		"mute":   "exit 4",
		"hangs":  "sleep 1000",
		"facts":  `[ "$HEALTH_NODE $HEALTH_MEMORY $HEALTH_GRES" = "w01 7500 gpu:2" ] || exit 1`,
		"my-own": "echo to stderr >&2; exit 1",
	}
	for _, tc := range []struct {
		names  string
		limit  int
		status int
		want   string
	}{
		{"good facts", 30, 0, ""},
		{"", 30, 0, ""},
		{"good bad mute", 30, 93, "health check bad failed: two three four (exit status 3)"},
		{"mute", 30, 93, "health check mute failed: exit status 4"},
		{"hangs good", 1, 93, "health check hangs failed: it did not end within 1 s"},
		{"my-own", 30, 93, "health check my-own failed: to stderr (exit status 1)"},
		{"missing", 30, 93, "health check missing failed: "},
	} {
		got, status := said(t, checks(t, settings(tc.names, tc.limit), scripts), "HEALTH_PROC="+t.TempDir())
		if status != tc.status || !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%q: status %d, %q; want %d, %q", tc.names, status, got, tc.status, tc.want)
		}
	}
}

func TestNoHealthCheckRunsBesideAJob(t *testing.T) {
	run := checks(t, "HEALTH_CHECKS=bad\nHEALTH_LIMIT=30\n", map[string]string{"bad": "exit 1"})
	for name, want := range map[string]int{"slurmstepd": 0, "slurmd": 93} {
		proc := t.TempDir()
		if err := os.Mkdir(filepath.Join(proc, "123"), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(proc, "123", "comm"), name+"\n")
		if got, status := said(t, run, "HEALTH_PROC="+proc); status != want {
			t.Errorf("beside %s: status %d, %s", name, status, got)
		}
	}
}

func TestTheMemoryOfANodeIsChecked(t *testing.T) {
	for memory, want := range map[string]string{
		"": "", "1": "", "999999999": "MiB of memory, slurm.conf declares RealMemory=999999999",
	} {
		if got, status := said(t, "health/memory", "HEALTH_MEMORY="+memory); !strings.HasSuffix(got, want) ||
			(status == 0) != (want == "") {
			t.Errorf("%q: status %d, %q", memory, status, got)
		}
	}
}

func TestTheDisksOfANodeAreChecked(t *testing.T) {
	dir := t.TempDir()
	fstab, mounts := filepath.Join(dir, "fstab"), filepath.Join(dir, "mounts")
	for name, tc := range map[string]struct{ fstab, mounts, want string }{
		"no fstab": {"", "", ""},
		"as declared": {"# a comment\nUUID=1 / ext4 defaults 0 1\n/dev/b " + dir + " xfs noatime 0 2\n",
			"b " + dir + " xfs rw,noatime 0 0\n", ""},
		"not mounted": {"/dev/b /scratch xfs defaults 0 2\n", "a / ext4 rw 0 0\n", "/scratch is not mounted"},
		"on demand":   {"/dev/b /scratch xfs noauto,ro 0 2\nc none swap sw 0 0\n", "", ""},
		"read-only": {"/dev/b " + dir + " xfs defaults 0 2\n", "b " + dir + " xfs ro,noatime 0 0\n",
			dir + " is read-only"},
		"meant to be so": {"/dev/b " + dir + " xfs ro 0 2\n", "b " + dir + " xfs ro 0 0\n", ""},
		"unreadable":     {"/dev/b /gone xfs defaults 0 2\n", "b /gone xfs rw 0 0\n", "/gone does not answer"},
		"two": {"/dev/b /gone xfs defaults 0 2\n/dev/c /d xfs defaults 0 2\n", "b /gone xfs rw 0 0\n",
			"/gone does not answer; /d is not mounted"},
	} {
		write(t, fstab, tc.fstab)
		write(t, mounts, tc.mounts)
		got, status := said(t, "health/disks", "HEALTH_FSTAB="+fstab, "HEALTH_MOUNTS="+mounts)
		if got != tc.want || (status == 0) != (tc.want == "") {
			t.Errorf("%s: status %d, %q; want %q", name, status, got, tc.want)
		}
	}
	program(t, filepath.Join(dir, "df"), "#!/bin/sh\necho F; echo overlay 100 90 10 90% /\n")
	if got, status := said(t, "health/disks", "HEALTH_FSTAB=/dev/null", "PATH="+dir+":"+os.Getenv("PATH")); status != 1 ||
		!strings.HasPrefix(got, "/ has only 0 MiB left") {
		t.Errorf("a full disk: status %d, %q", status, got)
	}
}

// TestTheGPUsOfANodeAreChecked has an nvidia-smi that prints what a real one prints; no real GPU was tried.
func TestTheGPUsOfANodeAreChecked(t *testing.T) {
	const two = "echo 0, GPU-8d2f1c34-0000; echo 1, GPU-8d2f1c34-0001"
	for name, tc := range map[string]struct{ gres, smi, want string }{
		"none declared":  {"tmp:100G", "exit 9", ""},
		"as declared":    {"gpu:a100:2,tmp:100G", two, ""},
		"of two types":   {"gpu:a100:1,gpu:h100:1", two, ""},
		"one is missing": {"gpu:a100:3", two, "nvidia-smi lists 2 GPUs, slurm.conf declares 3 (Gres=gpu:a100:3)"},
		"one fails": {"gpu:2", "echo Unable to determine the device handle for GPU1: Unknown Error; exit 15",
			"nvidia-smi fails: Unable to determine the device handle for GPU1: Unknown Error"},
	} {
		dir := t.TempDir()
		program(t, filepath.Join(dir, "nvidia-smi"), "#!/bin/sh\n"+tc.smi+"\n")
		got, status := said(t, "health/gpus", "HEALTH_GRES="+tc.gres, "PATH="+dir+":"+os.Getenv("PATH"))
		if got != tc.want || (status == 0) != (tc.want == "") {
			t.Errorf("%s: status %d, %q; want %q", name, status, got, tc.want)
		}
	}
}
