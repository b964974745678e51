package client

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/backup"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

const stateText = `{"version": 4, "serial": 7, "lineage": "l", "resources": []}`

// usedSite returns a site folder as a cluster leaves it, and its journal, in which one request is done and two are not.
func usedSite(t *testing.T) (site.Site, *journal.Journal) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	dir := filepath.Join(t.TempDir(), "small")
	n := newSite()
	n.PublicKey = ""
	if _, err := MakeSite(dir, n); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"clouds.yaml": "secret",
		"ansible/roles/site_compute/tasks/main.yml":                     "[]",
		"terraform/dns.tf":                                              "# ours",
		"terraform/openstack/.terraform.lock.hcl":                       "# locks",
		"terraform/openstack/main.tf":                                   "# the program's",
		"terraform/openstack/nodes.auto.tfvars.json":                    "{}",
		"terraform/openstack/terraform.tfstate":                         stateText,
		"terraform/openstack/terraform.tfstate.d/s-1/x":                 "",
		"terraform/openstack/terraform.tfstate.d/s-1/terraform.tfstate": stateText,
		"state/slurm_key":                                               "key",
		"state/ansible/given.json":                                      "munge",
		"state/log/worker.log":                                          "log",
		"state/program/1/ansible/x":                                     "",
		"inventory.json":                                                "{}",
		filepath.Join(os.Getenv("HOME"), ".ssh/id_ed25519"):             "private",
	} {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := site.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	log, err := s.Journal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	ctx := t.Context()
	var ids []reconfigure.RequestID
	for _, mode := range []reconfigure.Mode{reconfigure.Resume, reconfigure.Destroy, reconfigure.Update} {
		r, err := log.Submit(ctx, reconfigure.Request{Mode: mode, Nodes: nodeset.Of("small001")})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	_, err = log.Begin(ctx, ids[:2])
	campaign := reconfigure.Campaign{State: reconfigure.CampaignRunning}
	_, started := log.StartCampaign(ctx, campaign)
	err = errors.Join(err, started, log.AdoptIdentity(ctx, "the-id"),
		log.KeepSums(ctx, map[string]string{"small001": "sum"}),
		log.Finish(ctx, reconfigure.Outcome{Request: ids[0], Code: reconfigure.CodeDone}))
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

// files returns the contents of all files below a folder, by their paths.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[rel] = string(text)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

func backupOf(t *testing.T, s site.Site, keys ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "backup")
	if _, err := Backup(t.Context(), s, BackupOptions{To: to, Recipients: keys}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode() != 0o600 {
		t.Errorf("the backup: %v, %v", info.Mode(), err)
	}
	return to
}

// TestARestoredSiteHasAllThatNothingElseHas restores a backup in another directory, and in another home.
func TestARestoredSiteHasAllThatNothingElseHas(t *testing.T) {
	s, _ := usedSite(t)
	from := files(t, s.Dir)
	file := backupOf(t, s)
	t.Setenv("HOME", t.TempDir())
	dir := filepath.Join(t.TempDir(), "other")
	done, err := Restore(t.Context(), dir, file, "")
	if err != nil {
		t.Fatal(err)
	}
	if done.Cancelled != 2 || done.Manifest.ClusterID != "the-id" || done.Manifest.Cluster != "small" {
		t.Errorf("%+v", done)
	}
	got := files(t, dir)
	if text := got["state/journal.db"]; !strings.HasPrefix(text, "SQLite format 3") {
		t.Errorf("the journal is %.20q", text)
	}
	for _, path := range []string{"state/journal.db", "state/lead.lock", "state/leader"} {
		delete(got, path)
	}
	maps.DeleteFunc(from, func(path, _ string) bool {
		return strings.HasPrefix(path, "state/journal.db") || slices.Contains([]string{
			"state/log/worker.log", "state/program/1/ansible/x", "inventory.json", "terraform/openstack/main.tf",
			"terraform/openstack/nodes.auto.tfvars.json", "terraform/openstack/terraform.tfstate.d/s-1/x",
			"state/writers.lock", "state/lead.lock", "state/leader",
		}, path)
	})
	if diff := cmp.Diff(from, got); diff != "" {
		t.Errorf("(-backed up +restored):\n%s", diff)
	}
	key := filepath.Join(os.Getenv("HOME"), ".ssh", "id_ed25519")
	for _, path := range []string{key, filepath.Join(dir, "state/journal.db"), filepath.Join(dir, "clouds.yaml")} {
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

// TestNothingOfARestoredJournalIsCarriedOut has a request to destroy the cluster in the backup, and an active campaign.
func TestNothingOfARestoredJournalIsCarriedOut(t *testing.T) {
	s, _ := usedSite(t)
	dir := t.TempDir()
	if _, err := Restore(t.Context(), dir, backupOf(t, s), ""); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	log, err := journal.Open(ctx, filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if pending, err := log.Pending(ctx); err != nil || len(pending) > 0 {
		t.Errorf("pending: %v, %v", pending, err)
	}
	for id, want := range map[reconfigure.RequestID]reconfigure.Code{
		1: reconfigure.CodeDone, 2: reconfigure.CodeCancelled, 3: reconfigure.CodeCancelled,
	} {
		if o, found, err := log.Outcome(ctx, id); err != nil || !found || o.Code != want {
			t.Errorf("request %s: %+v, %v, %v", id, o, found, err)
		}
	}
	if p, paused, err := log.Paused(ctx); err != nil || !paused || !strings.Contains(p.Reason, "reconcile") {
		t.Errorf("the pause: %+v, %v, %v", p, paused, err)
	}
	if c, _, err := log.Campaign(ctx); err != nil || c.State != reconfigure.CampaignPaused {
		t.Errorf("the campaign: %+v, %v", c, err)
	}
	if sum, err := log.Sum(ctx, "small001"); err != nil || sum != "" {
		t.Errorf("the checksum: %q, %v", sum, err)
	}
	if identity, err := log.Identity(ctx); err != nil || identity.ID != "the-id" {
		t.Errorf("the id: %+v, %v", identity, err)
	}
	r, err := log.Submit(ctx, reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("small001")})
	if err != nil || r.ID < 1000 {
		t.Errorf("a new request has the number %s, which another one may have had since the backup: %v", r.ID, err)
	}
	if err := log.Continue(ctx); err != nil {
		t.Error(err)
	}
	if plan, err := log.Begin(ctx, []reconfigure.RequestID{r.ID}); err != nil || plan < 1000 {
		t.Errorf("a new plan has the number %d: %v", plan, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "state/journal.db-wal")); err != nil {
		t.Errorf("the journal is not in write-ahead mode: %v", err)
	}
}

// TestABackupWhileOthersWriteIsConsistent submits requests during backups. Each backup has a first part of them.
func TestABackupWhileOthersWriteIsConsistent(t *testing.T) {
	s, log := usedSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			_, _ = log.Submit(ctx, reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("small001")})
		}
		ended <- n
	}()
	last := 0
	for range 3 {
		file := backupOf(t, s)
		dir := t.TempDir()
		if _, err := Restore(t.Context(), dir, file, ""); err != nil {
			t.Fatal(err)
		}
		restored, err := journal.Open(t.Context(), filepath.Join(dir, "state"))
		if err != nil {
			t.Fatal(err)
		}
		all, err := restored.Requests(t.Context(), 1_000_000)
		if err = errors.Join(err, restored.Close()); err != nil || len(all) != int(all[0].ID) || len(all) < last {
			t.Errorf("%d requests, the last one is %s, %d before: %v", len(all), all[0].ID, last, err)
		}
		last = len(all)
	}
	cancel()
	if n := <-ended; n == 0 {
		t.Error("nothing was written meanwhile: the test proves nothing")
	}
}

// TestARestoreReplacesNothing refuses each directory that has a part of a cluster, and changes nothing in it.
func TestARestoreReplacesNothing(t *testing.T) {
	s, _ := usedSite(t)
	file := backupOf(t, s)
	for name, text := range map[string]string{
		"state/journal.db":     "",
		"state/journal.db-wal": "",
		"all.yml":              "cluster_name: another",
		"terraform/openstack/terraform.tfstate.d/s-2/terraform.tfstate": stateText,
		"terraform/openstack/terraform.tfstate":                         "{}",
		"terraform/libvirt/nodes.auto.tfvars.json":                      "{}",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		_, err := Restore(t.Context(), dir, file, "")
		if _, refused := errors.AsType[*NotNowError](err); !refused || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(map[string]string{name: text}, files(t, dir)); diff != "" {
			t.Errorf("%s: (-before +after):\n%s", name, diff)
		}
	}
}

// TestARestoreWhileAWorkerRunsIsRefused has a worker whose journal was removed.
func TestARestoreWhileAWorkerRunsIsRefused(t *testing.T) {
	s, log := usedSite(t)
	file := backupOf(t, s)
	release, ok, err := log.Acquire(t.Context())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for _, path := range []string{"state/journal.db", "state/journal.db-wal", "state/journal.db-shm"} {
		_ = os.Remove(s.File(path))
	}
	if err := os.RemoveAll(s.File("terraform")); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), s.Dir, file, ""); err == nil || !strings.Contains(err.Error(), "a worker") {
		t.Errorf("with a worker: %v", err)
	}
	_ = release()
	if _, err := Restore(t.Context(), s.Dir, file, ""); err != nil {
		t.Errorf("without a worker: %v", err)
	}
}

// TestAJournalThatBeginsDuringARestoreStays has a command write a new journal between the checks and the end of a
// restore, which must not take it for the restored one.
func TestAJournalThatBeginsDuringARestoreStays(t *testing.T) {
	s, _ := usedSite(t)
	file, dir := backupOf(t, s), t.TempDir()
	staged := t.TempDir()
	m, err := backup.Extract(file, "", staged)
	if err != nil {
		t.Fatal(err)
	}
	places, err := placesOf(m, dir, staged)
	if err != nil {
		t.Fatal(err)
	}
	last := places[len(places)-1]
	if last.to != filepath.Join(dir, "state/journal.db") {
		t.Fatalf("the last file is %s", last.to)
	}
	err = errors.Join(os.MkdirAll(filepath.Dir(last.to), 0o700), os.WriteFile(last.to, []byte("new"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if err := last.put(); err == nil || !strings.Contains(err.Error(), "was written meanwhile") {
		t.Errorf("%v", err)
	}
}

// TestADamagedBackupWritesNothing damages single bytes all over a backup, and cuts it off.
func TestADamagedBackupWritesNothing(t *testing.T) {
	s, _ := usedSite(t)
	whole, err := os.ReadFile(backupOf(t, s))
	if err != nil {
		t.Fatal(err)
	}
	damaged := [][]byte{nil, []byte("no backup"), whole[:len(whole)/2], whole[:len(whole)-1]}
	for at := 10; at < len(whole); at += len(whole) / 8 {
		text := bytes.Clone(whole)
		text[at] ^= 0x40
		damaged = append(damaged, text)
	}
	for i, text := range damaged {
		file, dir := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "site")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(t.Context(), dir, file, ""); err == nil {
			t.Errorf("damage %d was not noticed", i)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("damage %d: the directory is there: %v, %v", i, files(t, dir), err)
		}
	}
}

func TestAJournalOfALaterVersionIsRefused(t *testing.T) {
	newest, err := journal.NewestSchema()
	if err != nil || newest < 13 {
		t.Fatalf("the newest schema is %d: %v", newest, err)
	}
	file, dir := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "site")
	m := backup.Manifest{Program: "v9", Schema: newest + 1, StateDirectory: "state"}
	members := []backup.Member{{Path: "site/all.yml", Mode: 0o644, Content: []byte("x")}}
	if _, err := backup.Write(file, m, members, nil); err != nil {
		t.Fatal(err)
	}
	_, err = Restore(t.Context(), dir, file, "")
	if _, refused := errors.AsType[*NotNowError](err); !refused || !strings.Contains(err.Error(), "v9") {
		t.Errorf("%v", err)
	}
	if got := files(t, dir); len(got) > 0 {
		t.Errorf("it wrote %v", got)
	}
}

func TestAnEncryptedBackup(t *testing.T) {
	s, _ := usedSite(t)
	var keys [2]*age.X25519Identity
	var paths [2]string
	for i := range keys {
		var err error
		if keys[i], err = age.GenerateX25519Identity(); err != nil {
			t.Fatal(err)
		}
		paths[i] = filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(paths[i], []byte(keys[i].String()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := backupOf(t, s, keys[0].Recipient().String())
	if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte("private")) {
		t.Errorf("it is readable: %v", err)
	}
	for identity, want := range map[string]string{"": "--identity", paths[1]: "match", "/nowhere": "no such file"} {
		if _, err := Restore(t.Context(), t.TempDir(), file, identity); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with the key %q: %v", identity, err)
		}
	}
	dir := t.TempDir()
	if _, err := Restore(t.Context(), dir, file, paths[0]); err != nil || len(files(t, dir)) < 8 {
		t.Errorf("%v: %v", err, files(t, dir))
	}
	o := BackupOptions{To: filepath.Join(t.TempDir(), "b"), Recipients: []string{"age1x"}}
	if _, err := Backup(t.Context(), s, o); err == nil || !strings.Contains(err.Error(), "age1x") {
		t.Errorf("a wrong key: %v", err)
	}
}

// TestARestoreThatWasKilledIsRepeated removes what a killed restore had not written yet: the journal, and more.
func TestARestoreThatWasKilledIsRepeated(t *testing.T) {
	s, _ := usedSite(t)
	file, dir := backupOf(t, s), t.TempDir()
	if _, err := Restore(t.Context(), dir, file, ""); err != nil {
		t.Fatal(err)
	}
	want := files(t, dir)
	if err := errors.Join(os.Remove(filepath.Join(dir, "state/journal.db")), os.Remove(filepath.Join(dir, "all.yml")),
		os.Mkdir(filepath.Join(dir, ".restore-1"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), dir, file, ""); err != nil {
		t.Fatal(err)
	}
	got := files(t, dir)
	delete(want, "state/journal.db")
	delete(got, "state/journal.db")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, ".restore-1")); err == nil {
		t.Error("the folder of the killed restore is left")
	}
}

func TestAFolderKeepsTheNewestBackups(t *testing.T) {
	s, _ := usedSite(t)
	to := t.TempDir()
	others := []string{"small-20200101T000000Z.tar.gz.bak", "other-20200101T000000Z.tar.gz", "notes"}
	older := []string{
		"small-20200101T000000Z.tar.gz", "small-20200102T000000Z.tar.gz.age", "small-20200103T000000Z.tar.gz",
	}
	for _, name := range append(others, older...) {
		if err := os.WriteFile(filepath.Join(to, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done, err := Backup(t.Context(), s, BackupOptions{To: to, Keep: 2})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(older[:2], done.Removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	want := append(slices.Clone(others), older[2], filepath.Base(done.File))
	got := slices.Collect(maps.Keys(files(t, to)))
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if done.Time.Before(time.Now().Add(-time.Hour)) {
		t.Errorf("the time is %s", done.Time)
	}
	if _, err := Backup(t.Context(), s, BackupOptions{To: s.File("b")}); err == nil {
		t.Error("a backup in the cluster directory is accepted")
	}
}
