package client

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

// former is a cluster directory that an earlier version has written: testdata/upgrade has the files that
// lab/e2e/upgrade has kept of it, without the program's files.
type former struct {
	version   string
	schema    int64
	instances string
	requests  int
}

var formers = []former{
	{"0.1", 7, "ctl,node[01-03]", 3},
	{"0.2", 13, "b01,ctl,node[01-03]", 3},
}

// onlyVersion is a Terraform that says its version and cannot plan, as without a cloud.
const onlyVersion = `#!/bin/sh
[ "$1" = version ] || exit 1
echo '{"terraform_version": "1.5.7"}'
`

// openFormer opens a copy of a cluster directory.
func openFormer(t *testing.T, f former) site.Site {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "upgrade", f.version))))
	binary, declaration := filepath.Join(t.TempDir(), "terraform"), filepath.Join(dir, "group_vars", "all.yml")
	must(t, os.WriteFile(binary, []byte(onlyVersion), 0o755))
	declared, err := os.ReadFile(declaration)
	must(t, err)
	declared = regexp.MustCompile(`(?m)terraform: .*`).ReplaceAll(declared, []byte("terraform: "+binary))
	must(t, os.WriteFile(declaration, declared, 0o644))
	s, err := site.Open(dir)
	must(t, err)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSitesOfEarlierVersionsAreOpened opens the cluster directories of earlier versions, with jobs on two nodes, an
// idle node and, where the version could do that, a stopped node. The cloud is not there.
func TestSitesOfEarlierVersionsAreOpened(t *testing.T) {
	for _, f := range formers {
		t.Run(f.version, func(t *testing.T) {
			s := openFormer(t, f)
			before := files(t, s.Dir)
			u, unplanned, err := Upgrade(t.Context(), s, slog.New(slog.DiscardHandler))
			must(t, err)
			if unplanned == nil || u.Unseen == "" {
				t.Errorf("without a cloud, Terraform can plan: %+v", u)
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(files(t, s.Dir)))); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
			schema, _, err := s.Schema(t.Context())
			must(t, err)
			want := status.Versions{From: f.schema, To: schema.Newest}
			kept := s.StateFile(fmt.Sprint("journal.db.SCHEMA-", f.schema))
			if u.Schema != want || u.Copy != kept || !u.Unpacks || !slices.Contains(u.Files, "terraform/openstack/main.tf") {
				t.Errorf("the changes are %+v", u)
			}

			must(t, s.WithJournal(t.Context(), func(log *journal.Journal) error { return opened(t, s, log, f) }))
			if copies, _ := filepath.Glob(s.StateFile("journal.db.SCHEMA-*")); len(copies) != 1 {
				t.Errorf("the copies of the journal are %q", copies)
			}
		})
	}
}

// opened checks what this version reads from the journal and the states of an earlier one.
func opened(t *testing.T, s site.Site, log *journal.Journal, f former) error {
	if err := s.Adopt(t.Context(), log); err != nil {
		return err
	}
	requests, err := log.Requests(t.Context(), 99)
	if err != nil {
		return err
	}
	if len(requests) != f.requests {
		t.Errorf("the journal has the requests %+v", requests)
	}
	pending, err := log.Pending(t.Context())
	if err != nil || len(pending) > 0 {
		t.Errorf("requests without an outcome: %+v (%v)", pending, err)
	}
	if err := s.PutRootModule(t.Context()); err != nil {
		return err
	}
	adapters := s.Readers(log, slog.New(slog.DiscardHandler))
	defer adapters.Close()
	state, err := adapters.State(t.Context(), nodeset.NodeSet{})
	if err != nil {
		return err
	}
	if names := nodeset.Of(slices.Collect(maps.Keys(state.Instances))...); names.String() != f.instances {
		t.Errorf("Terraform's state has the instances %s", names)
	}
	desired, known, err := s.NodeMap(log).Read(t.Context())
	if err != nil || !known {
		t.Errorf("the map of nodes: known %v, error %v", known, err)
	}
	for node := range state.Instances {
		if _, ok := desired[node]; !ok {
			t.Errorf("%s is not in the map of nodes", node)
		}
	}
	keys, err := log.HostKeys(t.Context())
	if err != nil || len(keys) < len(state.Instances) { // removed instances have keys too
		t.Errorf("host keys of %d addresses (%v)", len(keys), err)
	}
	return nil
}
