package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/lab/procs"
	"github.com/eiffel-hpc/eiffel/lab/scratch"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// smallDisk is a control host whose cluster directory is on a separate small file system.
type smallDisk struct{ *host }

func onASmallDisk(t *testing.T) smallDisk {
	needs.Lab(t)
	dir := t.TempDir()
	ok(t, unix.Mount("small", dir, "tmpfs", 0, "size=64m"))
	t.Cleanup(func() { ok(t, unix.Unmount(dir, 0)) })
	h := &host{scriptLab: &scriptLab{test: t, work: dir}, t: t, temporary: scratch.Dir(t, "", "tmp")}
	t.Cleanup(func() { ok(t, h.close()) })
	installed, err := h.makeCluster()
	ok(t, err)
	h.prepare(installed)
	return smallDisk{h}
}

func (d smallDisk) ballast() string { return filepath.Join(d.work, "ballast") }

// fill fills the disk except for some bytes.
func (d smallDisk) fill(left int64) {
	d.t.Helper()
	file, err := os.Create(d.ballast())
	ok(d.t, err)
	defer file.Close()
	defer func() {
		info, err := file.Stat()
		ok(d.t, err)
		ok(d.t, file.Truncate(info.Size()-left))
	}()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else {
			ok(d.t, err)
		}
	}
}

func (d smallDisk) free() {
	d.t.Helper()
	ok(d.t, os.Remove(d.ballast()))
}

// ids returns the ids of the cloud's servers, by name.
func (d smallDisk) ids() map[string]string {
	d.t.Helper()
	all := map[string]string{}
	for _, s := range d.cloud.Servers() {
		if all[s.Name] != "" {
			d.t.Errorf("the cloud has %s twice", s.Name)
		}
		all[s.Name] = s.ID
	}
	return all
}

// output is the output of a running program so far.
type output struct {
	lock   sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.buffer.Write(p)
}

func (o *output) text() string {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.buffer.String()
}

// stopWorker stops the worker, so that it does nothing more until it is killed.
func (d smallDisk) stopWorker() {
	d.t.Helper()
	all, err := d.processes()
	ok(d.t, err)
	i := slices.IndexFunc(all, func(p procs.Process) bool {
		return filepath.Base(p.Args[0]) == "reconfigure" && slices.Contains(p.Args, "worker")
	})
	if i < 0 {
		d.t.Fatalf("no worker runs: %v", all)
	}
	ok(d.t, unix.Kill(all[i].ID, unix.SIGSTOP))
}

// TestAFullDiskLosesNothing fills the disk of the control host while it is idle, and while the cloud makes instances.
// In the second case neither can the worker write its journal, nor Terraform its state. The worker is stopped before
// Terraform ends, and killed afterwards: otherwise it might restore the state before it is killed. The next worker
// restores it.
func TestAFullDiskLosesNothing(t *testing.T) {
	d := onASmallDisk(t)
	d.run(1, "deploy") // the instances do not answer
	ok(t, d.awaitSettled())
	d.declares("# Slurm's partitions,", freshGroup(2)+"\n# Slurm's partitions,")
	d.write("slurm.json", slurmStates(t, numbered("node", 1, 2), numbered("new", 1, 2), numbered("node", 3, 4)))
	before := d.ids()

	d.fill(0)
	said := d.run(1, "resume", "--no-wait", "new01")
	if !strings.Contains(said, filepath.Join(d.work, "state")) || !strings.Contains(said, "the disk is full") {
		t.Errorf("on a full disk a caller is told:\n%s", said)
	}
	d.free()
	if pending, _, err := d.journal(); pending != 0 || err != nil {
		t.Errorf("%d requests of a caller that was refused are in the journal, error %v", pending, err)
	}

	d.fill(4 << 20)
	said = d.run(1, "resume", "new01")
	if !strings.Contains(said, "too little for Terraform's state") || !strings.Contains(said, "nothing was changed") {
		t.Errorf("on a disk that is almost full a caller is told:\n%s", said)
	}
	d.free()
	if diff := cmp.Diff(before, d.ids()); diff != "" {
		t.Errorf("on a disk that is almost full the cloud was changed (-before +after):\n%s", diff)
	}

	hang, err := d.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.Hang, Call: "POST servers", Count: 1000})
	ok(t, err)
	caller := exec.Command("reconfigure", "resume", "new[01-02]")
	caller.Dir, caller.Env = d.work, d.env
	var told output
	caller.Stdout, caller.Stderr = &told, &told
	ok(t, caller.Start())
	ok(t, eventually("both instances are asked for", func() (bool, error) {
		return d.cloud.Faults().List()[0].Hits > 1, nil
	}))
	d.fill(0)
	ok(t, eventually("who follows the request is told of the disk", func() (bool, error) {
		return strings.Contains(told.text(), "is full"), nil
	}))
	ok(t, caller.Process.Kill()) // it would start another worker
	_ = caller.Wait()            // it was killed
	d.stopWorker()
	d.cloud.Faults().Clear(hang)
	ok(t, eventually("Terraform has ended", func() (bool, error) {
		left, err := d.processes()
		return !slices.ContainsFunc(left, func(p procs.Process) bool {
			return filepath.Base(p.Args[0]) == "terraform"
		}), err
	}))
	// The next worker adopts the instances in time or, if Slurm does not answer, leaves them to a later request.
	ok(t, eventually("the worker is killed", func() (bool, error) {
		left, err := d.processes()
		for _, p := range left {
			_ = unix.Kill(p.ID, unix.SIGKILL) // it may have ended
		}
		return len(left) == 0, err
	}))
	d.free()
	state := filepath.Join(d.work, "terraform", "openstack", "terraform.tfstate")
	if text, err := os.ReadFile(state); err != nil || json.Valid(text) {
		t.Errorf("Terraform has written its state to a full disk, error %v: the test proves nothing", err)
	}
	cutOff := "The next worker restores it from " + state + ".backup"
	if said := d.run(0, "status"); !strings.Contains(said, cutOff) {
		t.Errorf("the status does not say how the state is restored:\n%s", said)
	}
	d.run(0, "worker")
	ok(t, d.awaitSettled())
	if text, err := os.ReadFile(state); err != nil || !json.Valid(text) {
		t.Errorf("the worker has not restored Terraform's state, error %v", err)
	}

	// The new instances were adopted, or removed if that took longer than their time.
	for node := range d.ids() {
		if before[node] == "" && node != "new01" && node != "new02" {
			t.Errorf("the cloud has an instance of %s", node)
		}
	}
	for node, id := range before {
		if d.ids()[node] != id {
			t.Errorf("%s has another instance", node)
		}
	}
	d.wantClean()
	log, err := journal.Open(t.Context(), filepath.Join(d.work, "state"))
	ok(t, err)
	defer log.Close()
	if requests, err := log.Requests(t.Context(), 100); err != nil || len(requests) != 3 {
		t.Errorf("%d requests, error %v", len(requests), err)
	}
}
