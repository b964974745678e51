package sitefiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// folder makes a cluster directory with these site files. A file whose name ends with ! is executable.
func folder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, Folder), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name, executable := strings.CutSuffix(name, "!")
		mode := map[bool]os.FileMode{false: 0o644, true: 0o755}[executable]
		if err := os.WriteFile(filepath.Join(dir, Folder, name), []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestANodeGetsTheBestMatch(t *testing.T) {
	files, err := Read(folder(t, "prolog.0.all!", "prolog.10.node[01-04]!", "prolog.20.node03", "prolog.20.node04,gpu1",
		"slurm.local.conf.5.gpu[1-9]", "check.v2.0.node01", ".hidden", "prolog.0.all~", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{
		"node01": "check.v2=check.v2.0.node01 prolog=prolog.10.node[01-04]!",
		"node02": "prolog=prolog.10.node[01-04]!",
		"node03": "prolog=prolog.20.node03",
		"node05": "prolog=prolog.0.all!",
		"gpu1":   "prolog=prolog.20.node04,gpu1 slurm.local.conf=slurm.local.conf.5.gpu[1-9]",
		"gpu2":   "prolog=prolog.0.all! slurm.local.conf=slurm.local.conf.5.gpu[1-9]",
	} {
		var got []string
		for _, f := range files.For(node) {
			one := f.Name + "=" + f.Source
			if f.Executable {
				one += "!"
			}
			got = append(got, one)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", node, diff)
		}
	}
	var table strings.Builder
	if err := files.Of(nodeset.Of("gpu2", "node03")).Write(&table); err != nil {
		t.Fatal(err)
	}
	want := "gpu2  site/prolog  prolog.0.all\ngpu2  site/slurm.local.conf  slurm.local.conf.5.gpu[1-9]\n" +
		"node03  site/prolog  prolog.20.node03\n"
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheNamesAreChecked(t *testing.T) {
	for names, want := range map[string]string{
		"":                                  "",
		"a.1.n1 a.1.n2":                     "",
		"a.1.all a.2.all":                   "",
		"a.1.n1 b.1.n1":                     "",
		"a.1.n[1-4] a.1.n[3-9]":             "a.1.n[1-4] and a.1.n[3-9] have the same priority for n[3-4]",
		"a.1.all a.1.n3":                    "a.1.all and a.1.n3 have the same priority for n3",
		"prolog":                            "prolog: the name is not in the form",
		"prolog.n1":                         "not in the form",
		"prolog.01.n1":                      "not in the form",
		"prolog.1.":                         "not in the form",
		"prolog.1.n[1-":                     "prolog.1.n[1-: ",
		"prolog.-1.n1":                      "not in the form",
		"quote'.1.n1":                       "not in the form",
		"{{x}}.1.n1":                        "not in the form",
		"-rf.1.n1":                          "not in the form",
		"a.1.n1 a.1.n2 wrong.n1 a.1.n[2-3]": "a.1.n2 and a.1.n[2-3] have",
	} {
		_, err := Read(folder(t, strings.Fields(names)...))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", names, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %s", names, err, want)
		}
	}
	if files, err := Read(t.TempDir()); err != nil || files != nil {
		t.Errorf("without the folder: %v, error %v", files, err)
	}
}
