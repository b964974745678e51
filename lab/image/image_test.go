package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSourcesOfTheBaseAreDebiansAlone(t *testing.T) {
	const stanzas = `# a comment
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://other.example/
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/other.gpg

Types: deb
Enabled: no
URIs: http://off.example/
Suites: bookworm
Components: main

Types: deb-src
URIs: http://sources.example/
Suites: bookworm
Components: main
`
	const lines = `deb http://plain.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://opt.example bookworm-security main #why
deb [signed-by=/etc/other.gpg] http://signed.example bookworm main
deb [broken http://broken.example bookworm main
# deb http://off.example bookworm main
deb http://next.example trixie main
deb http://parts.example bookworm stable
deb-src http://sources.example bookworm main
`
	apt := t.TempDir()
	for path, content := range map[string]string{
		"sources.list": lines, "sources.list.d/debian.sources": stanzas, "sources.list.d/ignored.save": lines,
	} {
		if err := writeFile(filepath.Join(apt, path), []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := hostSources(apt, "bookworm")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"deb http://mirror.example/debian bookworm main",
		"deb http://mirror.example/debian bookworm-updates main",
		"deb http://opt.example bookworm-security main",
		"deb http://plain.example/debian bookworm main",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	// The host offers a release itself, or has the mirrors for it.
	for release, want := range map[string][]string{
		"trixie": {"deb http://next.example trixie main"},
		"forky": {
			"deb http://mirror.example/debian forky main",
			"deb http://mirror.example/debian forky-updates main",
			"deb http://opt.example forky-security main",
			"deb http://plain.example/debian forky main",
		},
	} {
		got, err := hostSources(apt, release)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sources of %s (-want +got):\n%s", release, diff)
		}
	}
}

func TestNoSourcesMeanTheDefaultMirror(t *testing.T) {
	sources, err := hostSources(t.TempDir(), "trixie")
	if err != nil || sources != nil {
		t.Fatalf("sources = %v, %v", sources, err)
	}
	if argv := DefaultBase().bootstrapCommand(t.Context(), "/x", nil).Args; argv[len(argv)-1] != "/x" {
		t.Errorf("a mirror is named: %q", argv)
	}
	if argv := DefaultBase().bootstrapCommand(t.Context(), "/x", []string{"deb a b main"}).Args; argv[len(argv)-1] != "-" {
		t.Errorf("the host's mirror is not used: %q", argv)
	}
}

func TestABaseOfAnotherRecipeIsNotCurrent(t *testing.T) {
	dir := t.TempDir()
	base := DefaultBase()
	if base.IsCurrent(dir) {
		t.Error("an empty folder is current")
	}
	for content, want := range map[string]bool{base.recipe(): true, "other\n": false,
		Base{Release: base.Release, Systemd: true}.recipe(): false, Base{Release: "trixie"}.recipe(): false} {
		if err := writeFile(filepath.Join(dir, stamp), []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got := base.IsCurrent(dir); got != want {
			t.Errorf("recipe %q: current = %t", content, got)
		}
	}
}

func newStore(t *testing.T) *Store {
	t.Helper()
	s, err := NewStore(filepath.Join(t.TempDir(), "images"), "/base")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestImagesAreLayersAboveTheBase(t *testing.T) {
	s := newStore(t)
	if err := s.Add("v1", map[string]string{"/etc/image-release": "v1\n", "/usr/bin/x": "#!/bin/sh\n"}); err != nil {
		t.Fatal(err)
	}
	layers, err := s.Layers("v1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/base", filepath.Join(s.dir, "v1")}, layers); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
	for path, mode := range map[string]fs.FileMode{"etc/image-release": 0o644, "usr/bin/x": 0o755} {
		info, err := os.Stat(filepath.Join(layers[1], path))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	layers[0] = "changed by the caller"
	if again, _ := s.Layers("v1"); again[0] != "/base" {
		t.Error("a caller changed the store")
	}
}

func TestImageIDs(t *testing.T) {
	s := newStore(t)
	for _, id := range []string{"", ".", "..", "a/b", "/a", ".hidden"} {
		if err := s.Add(id, nil); err == nil {
			t.Errorf("%q is accepted", id)
		}
	}
	if err := s.Add("twice", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Add("twice", nil); err == nil {
		t.Error("an image is replaced under the machines that use it")
	}
	if _, err := s.Layers("none"); !errors.Is(err, ErrUnknown) {
		t.Errorf("Layers of none = %v", err)
	}
}

func TestAFailedSnapshotIsNoImage(t *testing.T) {
	s := newStore(t)
	if err := s.Snapshot(t.Context(), "v1", nil, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Fatal("a snapshot of nothing succeeds")
	}
	if _, err := s.Layers("v1"); !errors.Is(err, ErrUnknown) {
		t.Errorf("Layers = %v", err)
	}
	if left, _ := os.ReadDir(s.dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
