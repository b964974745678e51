package security_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure/check"
)

// onControlHost runs a command as the user of the control host, which must succeed, and returns its output.
func onControlHost(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := run(t, argv)
	if err != nil {
		t.Fatalf("%v on the control host: %v\n%s", argv, err, out)
	}
	return strings.TrimSpace(out)
}

func TestTheControlHostsUserIsAnOrdinaryOne(t *testing.T) {
	who := onControlHost(t, "sh", "-c", "id -un; id -Gn; echo $HOME; ls -A /home; stat -c %U . ~/.ssh/authorized_keys")
	want := strings.Join([]string{
		cluster.User, cluster.User, "/home/" + cluster.User, cluster.User, cluster.User, cluster.User,
	}, "\n")
	if who != want {
		t.Errorf("user, groups, home, all homes, and the owners of the cluster directory and the keys are\n%s", who)
	}
	for _, command := range []string{"ls /root", "sudo -n id", "touch bin/../../x", "cat /etc/shadow"} {
		if out, err := run(t, []string{"sh", "-c", command}); err == nil {
			t.Errorf("%s: no error\n%s", command, out)
		}
	}
}

// TestNothingOfTheControlHostRunsAsRoot checks the processes while Slurm resumes and suspends a node, and the files
// afterwards.
func TestNothingOfTheControlHostRunsAsRoot(t *testing.T) {
	info, err := os.Stat(lab.Site)
	if err != nil {
		t.Fatal(err)
	}
	uid := info.Sys().(*syscall.Stat_t).Uid
	users, others := map[string]bool{}, map[string]bool{} // by name
	id := lab.Job(t, "--nodelist=node05", "--wrap=true")
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		processes, err := lab.ControlHostProcesses()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range processes {
			if name, all := ownersOf(p.ID); slices.Equal(all, slices.Repeat([]string{fmt.Sprint(uid)}, 4)) {
				users[name] = true
			} else if name != "" {
				others[name] = true
			}
		}
		state, err := lab.JobState(id)
		_, there := lab.Server("node05")
		return state == "COMPLETED" && !there, fmt.Sprintf("the job is %s, node05 is there: %v (%v)", state, there, err)
	})
	lab.AwaitQuiet(t)
	// A name has 15 characters (proc_pid_comm(5)).
	for _, name := range []string{"reconfigure", "terraform", "terraform-provi", "ansible-playboo", "ssh"} {
		if !users[name] {
			t.Errorf("no %s of the user's was seen, so the test is no proof: %v", name, slices.Sorted(maps.Keys(users)))
		}
	}
	// sshd, and the test's own entry.
	for _, name := range []string{"sshd", "nsenter", "setpriv"} {
		delete(others, name)
	}
	if len(others) > 0 {
		t.Errorf("%v run as another user", slices.Sorted(maps.Keys(others)))
	}
	assertFilesBelongTo(t, uid, lab.Site, filepath.Join(lab.Dir, home))
}

// ownersOf returns the name of a process, and its four user ids: real, effective, saved, and of the file system
// (proc_pid_status(5)). They are empty when it has ended.
func ownersOf(pid int) (name string, uids []string) {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	for line := range strings.Lines(string(text)) {
		switch fields := strings.Fields(line); {
		case len(fields) > 1 && fields[0] == "Name:":
			name = fields[1]
		case len(fields) > 1 && fields[0] == "Uid:":
			uids = fields[1:]
		}
	}
	return name, uids
}

func assertFilesBelongTo(t *testing.T, uid uint32, folders ...string) {
	t.Helper()
	files := 0
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			files++
			if owner := info.Sys().(*syscall.Stat_t).Uid; owner != uid {
				t.Errorf("%s belongs to uid %d", path, owner)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if files == 0 {
		t.Error("there are no files")
	}
}

// TestCheckFindsWhatIsUnsafe checks the deployed lab, which has no error, and then with one error at a time.
func TestCheckFindsWhatIsUnsafe(t *testing.T) {
	var report check.Report
	var code int
	// On a busy computer a source may exceed the time limit for its answer.
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		report, code = checked(t)
		return len(report.Unreachable) == 0, fmt.Sprintf("no answer of %+v", report.Unreachable)
	})
	if report.Worst() == check.Error || code == 11 {
		t.Errorf("exit code %d: %+v", code, report)
	}
	for name, fault := range map[string]struct{ begin, end, check, words string }{
		"a key that all may read": {
			"chmod 0666 ~/.ssh/id_ed25519", "chmod 0600 ~/.ssh/id_ed25519",
			"files", "/home/eiffel/.ssh/id_ed25519, the private key for the nodes, has mode 0666",
		},
		"keys that a group may write": {
			"chmod 0660 ~/.ssh/authorized_keys", "chmod 0600 ~/.ssh/authorized_keys",
			"files", "/home/eiffel/.ssh/authorized_keys, the keys that may log in here, has mode 0660",
		},
		"a home that a group may write": {
			"chmod 0775 ~", "chmod 0700 ~", "files", "/home/eiffel, the home of the user whom Slurm calls, has mode 0775",
		},
		"credentials that all may read": {
			"chmod 0644 clouds.yaml", "chmod 0600 clouds.yaml", "files", "clouds.yaml, the cloud's credentials, has mode 0644",
		},
		"a key without the gate": {
			"cd ~/.ssh && cp -p authorized_keys kept && sed -i 's/,command=\"[^\"]*\"//' authorized_keys",
			"cd ~/.ssh && mv kept authorized_keys", "keys", "/home/eiffel/.ssh/authorized_keys for the key of",
		},
	} {
		onControlHost(t, "sh", "-c", fault.begin)
		report, code := checked(t)
		onControlHost(t, "sh", "-c", fault.end)
		if code != 11 || !slices.ContainsFunc(report.Findings, func(f check.Finding) bool {
			return f.Severity == check.Error && f.Check == fault.check && strings.Contains(f.What, fault.words)
		}) {
			t.Errorf("%s: exit code %d: %+v", name, code, report.Findings)
		}
	}
	if report, _ := checked(t); report.Worst() == check.Error {
		t.Errorf("afterwards: %+v", report.Findings)
	}
}

// TestDeployFindsAWrongControlHost declares a control host that Slurm cannot call, and deploys.
func TestDeployFindsAWrongControlHost(t *testing.T) {
	declared := lab.Declaration.ControlHost
	for says, wrong := range map[string]func(*cluster.ControlHost){
		"did not answer (port 1, exit status 255)": func(h *cluster.ControlHost) { h.Port = 1 },
		"could not accept the request (port":       func(h *cluster.ControlHost) { h.Directory += "-elsewhere" },
	} {
		lab.Redeclare(t, func(d *cluster.Declaration) {
			d.ControlHost = declared
			wrong(&d.ControlHost)
		})
		out, code := lab.Call(t, "deploy")
		if code != 1 || !strings.Contains(out, "Slurm cannot resume nodes: control host "+declared.Address+" "+says) ||
			!strings.Contains(out, "correct control_host in all.yml") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	}
	lab.Redeclare(t, func(d *cluster.Declaration) { d.ControlHost = declared })
	lab.Do(t, "deploy")
}

func checked(t *testing.T) (report check.Report, code int) {
	t.Helper()
	cmd := lab.Reconfigure(t.Context(), "--json", "check")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return report, cmd.ProcessState.ExitCode()
}
