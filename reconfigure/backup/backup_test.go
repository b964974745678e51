package backup

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAFileThatIsNotAsItsManifestSaysIsRefused writes archives whose compression is whole.
func TestAFileThatIsNotAsItsManifestSaysIsRefused(t *testing.T) {
	for want, change := range map[string]func(*Manifest, *Member){
		"":                     func(*Manifest, *Member) {},
		"the checksum of a is": func(m *Manifest, _ *Member) { m.Files[0].SHA256 = strings.Repeat("0", 64) },
		`it has "a"`:           func(m *Manifest, _ *Member) { m.Files[0].Path = "b" },
		`it has "../a"`:        func(m *Manifest, a *Member) { m.Files[0].Path, a.Path = "../a", "../a" },
		"it does not end":      func(m *Manifest, _ *Member) { m.Files = m.Files[:0] },
		"the format 2":         func(m *Manifest, _ *Member) { m.Format = 2 },
	} {
		a := Member{Path: "a", Mode: 0o600, Content: []byte("text")}
		described, err := a.describe()
		if err != nil {
			t.Fatal(err)
		}
		m := Manifest{Format: format, Files: []File{described}}
		change(&m, &a)
		var text bytes.Buffer
		if err := writeTo(&text, m, []Member{a}, nil); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "backup")
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, "to")
		_, err = Extract(file, "", to)
		if want == "" {
			if got, read := os.ReadFile(filepath.Join(to, "a")); err != nil || read != nil || string(got) != "text" {
				t.Errorf("%q: %v, %v", got, err, read)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
			t.Errorf("%s: it wrote outside of its folder", want)
		}
	}
}

func TestPathsAreThoseOfTheNewHost(t *testing.T) {
	for path, want := range map[string]string{
		"/old/site/state":      "/new/site/state",
		"/home/a/.ssh/key":     "/home/b/.ssh/key",
		"/var/lib/x":           "/var/lib/x",
		"/old/site-two/state":  "/old/site-two/state",
		"/home/ab/.ssh/id_rsa": "/home/ab/.ssh/id_rsa",
	} {
		if got := Absolute(Portable(path, "/old/site", "/home/a"), "/new/site", "/home/b"); got != want {
			t.Errorf("%s became %s, want %s", path, got, want)
		}
	}
}
