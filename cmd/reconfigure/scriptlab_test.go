package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/lab/procs"
	"github.com/eiffel-hpc/eiffel/lab/tools"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// scriptLab is the cloud of a script and its processes.
type scriptLab struct {
	test   needs.Skipper
	work   string // the script's folder
	cloud  *labcloud.Cloud
	server *httptest.Server
}

// publicKey is useless: its private half was deleted.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIpIBPyqOgkM2XD5O5rIfkRy/kyCQjwPK9r2xHg0yCkC nobody"

type labKey struct{}

func labOf(ts *testscript.TestScript) *scriptLab { return ts.Value(labKey{}).(*scriptLab) }

// a run of Terraform takes 20 s, since the provider sleeps; concurrent runs take longer
const scriptPatience = 5 * time.Minute

func makeCluster(ts *testscript.TestScript, _ []string) error {
	installed, err := labOf(ts).makeCluster()
	ts.Setenv("TF_CLI_CONFIG_FILE", installed.TerraformRC)
	ts.Setenv("TERRAFORM", installed.Terraform)
	return err
}

// makeSite makes a site folder: a cluster directory that has none of the program's files.
func makeSite(ts *testscript.TestScript, _ []string) error {
	if err := makeCluster(ts, nil); err != nil {
		return err
	}
	work := labOf(ts).work
	return errors.Join(
		os.Rename(filepath.Join(work, "group_vars", "all.yml"), filepath.Join(work, "all.yml")),
		os.Remove(filepath.Join(work, "group_vars")), os.Remove(filepath.Join(work, "slurmscripts")),
		os.RemoveAll(filepath.Join(work, "terraform")), os.Mkdir(filepath.Join(work, "terraform"), 0o755))
}

// makeCloud makes a cloud with its clouds.yaml, and no cluster directory.
func makeCloud(ts *testscript.TestScript, _ []string) error {
	lab := labOf(ts)
	if err := lab.startCloud(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(lab.work, "clouds.yaml"), lab.cloud.CloudsYAML("openstack", lab.server.URL), 0o600)
}

// makeCluster makes a cluster directory and a cloud for it, and prints the paths of the tools.
func (l *scriptLab) makeCluster() (tools.Paths, error) {
	needs.Lab(l.test)
	if err := l.startCloud(); err != nil {
		return tools.Paths{}, err
	}
	return l.checkOut()
}

// checkOut makes a cluster directory for the cloud.
func (l *scriptLab) checkOut() (tools.Paths, error) {
	checkout := filepath.Join("..", "..")
	found, err := tools.Find(checkout)
	installed := found.Quick()
	if err != nil {
		return installed, err
	}
	declaration, err := os.ReadFile(filepath.Join(checkout, "group_vars", "all.yml"))
	if err != nil {
		return installed, err
	}
	files := map[string]string{
		"clouds.yaml":        string(l.cloud.CloudsYAML("openstack", l.server.URL)),
		"group_vars/all.yml": string(declaration),
	}
	for _, name := range []string{"main.tf", "variables.tf", "versions.tf"} {
		text, err := os.ReadFile(filepath.Join(checkout, "terraform", "openstack", name))
		if err != nil {
			return installed, err
		}
		files["terraform/openstack/"+name] = string(text)
	}
	for name, text := range files {
		path := filepath.Join(l.work, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
		if err != nil {
			return installed, err
		}
	}
	const link = "terraform/openstack/clouds.yaml"
	target, err := os.Readlink(filepath.Join(checkout, link))
	if err != nil {
		return installed, err
	}
	return installed, errors.Join(
		os.Mkdir(filepath.Join(l.work, "slurmscripts"), 0o755), // as a checkout has; without playbooks
		os.Symlink(target, filepath.Join(l.work, link)),
		l.declare(`terraform: ""`, "terraform: "+installed.Terraform),
		l.declare(`public_key: ""`, "public_key: "+publicKey),
		l.declare("boot_timeout: 300", "boot_timeout: 1"),
		l.declare("reconcile_minutes: 5", "reconcile_minutes: 0")) // otherwise workers would not end by themselves
}

// startCloud starts a cloud with the names that the repository's declaration uses.
func (l *scriptLab) startCloud() error {
	cloud, err := labcloud.New(labcloud.Config{
		Project: "lab", User: "operator", Password: "secret",
		// No process listens on these addresses, and packets to them stay on this machine.
		Networks: []labcloud.Network{
			{Name: "cluster", CIDR: netip.MustParsePrefix("127.60.0.0/16"), Gateway: netip.MustParseAddr("127.60.0.1")},
		},
		Flavors: []labcloud.Flavor{
			{Name: "m1.medium", VCPUs: 2, RAM: 4096, Disk: 20},
			{Name: "m1.large", VCPUs: 4, RAM: 8192, Disk: 20},
		},
		Images: []labcloud.Image{
			{ID: "11111111-0000-4000-8000-000000000001", Name: "debian-12"},
			{ID: "11111111-0000-4000-8000-000000000002", Name: "debian-13"},
		},
	}, labcloud.Null{})
	if err != nil {
		return err
	}
	l.cloud, l.server = cloud, httptest.NewServer(cloud.Handler())
	return nil
}

// close ends the script's processes and cloud. A remaining process is an error of the script: workers end by
// themselves.
func (l *scriptLab) close() error {
	err := l.endProcesses()
	if l.cloud != nil {
		l.cloud.Faults().Clear(0)
		err = errors.Join(err, l.cloud.Close(context.Background()))
		l.server.Close()
	}
	return err
}

func declare(ts *testscript.TestScript, args []string) error {
	return labOf(ts).declare(args[0], args[1])
}

func (l *scriptLab) declare(was, is string) error {
	path := filepath.Join(l.work, config.Name(l.work))
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), was) {
		return fmt.Errorf("the declaration has no %q", was)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(text), was, is, 1)), 0o600)
}

func orderFault(ts *testscript.TestScript, args []string) error {
	_, err := labOf(ts).cloud.Faults().Add(labcloud.Fault{Kind: labcloud.Kind(args[0]), Call: args[1], Count: 1000})
	return err
}

// limitInstances limits the number of the project's instances.
func limitInstances(ts *testscript.TestScript, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err == nil {
		labOf(ts).cloud.SetQuotas(labcloud.Quotas{Instances: n})
	}
	return err
}

func clearFaults(ts *testscript.TestScript, _ []string) error {
	if !labOf(ts).cloud.Faults().Clear(0) {
		return errors.New("there is no fault")
	}
	return nil
}

// awaitCall waits for a new call: earlier ones do not count.
func awaitCall(ts *testscript.TestScript, args []string) error {
	cloud := labOf(ts).cloud
	before := cloud.Calls()[args[0]]
	return eventually(
		"the cloud is called "+args[0],
		func() (bool, error) { return cloud.Calls()[args[0]] > before, nil },
	)
}

func demandPending(ts *testscript.TestScript, args []string) error {
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	got, _, err := labOf(ts).journal()
	if err == nil && got != want {
		err = fmt.Errorf("%d requests have no outcome, not %d", got, want)
	}
	return err
}

func awaitSettled(ts *testscript.TestScript, _ []string) error { return labOf(ts).awaitSettled() }

func (l *scriptLab) awaitSettled() error {
	var left []procs.Process
	err := eventually("every request has its outcome, and the worker has ended", func() (bool, error) {
		pending, leader, err := l.journal()
		if err == nil {
			left, err = l.processes()
		}
		return pending == 0 && leader == "" && len(left) == 0, err
	})
	if err != nil {
		return fmt.Errorf("%w; left: %v", err, left)
	}
	return nil
}

// journal returns the number of requests without an outcome, and the holder of the lease.
func (l *scriptLab) journal() (pending int, leader string, err error) {
	ctx := context.Background()
	log, err := journal.Open(ctx, filepath.Join(l.work, "state"))
	if err != nil {
		return 0, "", err
	}
	defer log.Close()
	requests, err := log.Pending(ctx)
	return len(requests), log.Holder(ctx), err
}

// files returns the files in the script's folder by name, each with its mode, time and checksum.
func (l *scriptLab) files() (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(l.work, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		all[path] = info.Mode().String()
		if !info.Mode().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		all[path] += fmt.Sprintf(" %s %x", info.ModTime(), sha256.Sum256(text))
		return err
	})
	return all, err
}

func sendSignal(ts *testscript.TestScript, args []string) error {
	lab := labOf(ts)
	find := func() (procs.Process, bool, error) {
		all, err := lab.processes()
		i := slices.IndexFunc(all, func(p procs.Process) bool {
			return filepath.Base(p.Args[0]) == args[1] && slices.Contains(p.Args, args[2])
		})
		if err != nil || i < 0 {
			return procs.Process{}, false, err
		}
		return all[i], true, nil
	}
	err := eventually("there is a "+strings.Join(args[1:], " "), func() (bool, error) {
		p, found, err := find()
		if !found {
			return false, err
		}
		return true, syscall.Kill(p.ID, unix.SignalNum(args[0]))
	})
	if err != nil || args[0] != "SIGKILL" {
		return err
	}
	// For a moment there may have been two workers, one of which was about to end because the other had the lease.
	return eventually("all are gone", func() (bool, error) {
		p, found, err := find()
		if found {
			_ = syscall.Kill(p.ID, unix.SIGKILL) // it may have ended by itself meanwhile
		}
		return !found, err
	})
}

func eventually(what string, holds func() (bool, error)) error {
	for deadline := time.Now().Add(scriptPatience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ok, err := holds(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("this did not happen: %s", what)
}

// scriptMark is in the environment of every process of a script, and is inherited by child processes.
const scriptMark = "EIFFEL_SCRIPT"

// mark marks the processes of the script.
func (l *scriptLab) mark() procs.Mark { return procs.Variable(scriptMark + "=" + l.work) }

func (l *scriptLab) processes() ([]procs.Process, error) { return procs.Find(l.mark()) }

// endProcesses kills remaining processes, and returns an error if there are any.
func (l *scriptLab) endProcesses() error {
	killed, err := procs.End(l.mark())
	if err == nil && len(killed) > 0 {
		err = fmt.Errorf("processes were left, and killed: %v", killed)
	}
	return err
}
