package sameseed

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A package that lacks the import fails at random.
func TestEachPackageWithPropertyTestsHasTheSeed(t *testing.T) {
	const here, rapid = `"github.com/eiffel-hpc/eiffel/lab/sameseed"`, `"pgregory.net/rapid"`
	draws, seeded := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("../../reconfigure", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			draws[filepath.Dir(path)] = draws[filepath.Dir(path)] || i.Path.Value == rapid
			seeded[filepath.Dir(path)] = seeded[filepath.Dir(path)] || i.Path.Value == here
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for dir, does := range draws {
		if !does {
			continue
		}
		packages++
		if !seeded[dir] {
			t.Errorf("%s has property tests, and does not import %s", dir, here)
		}
	}
	if packages < 10 {
		t.Errorf("%d packages with property tests were found", packages)
	}
}
