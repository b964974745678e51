package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumentedTestsExist checks that the tests exist that the documents name as proof, and that each row of
// docs/how-it-works/security.md and gate.md about something that is impossible names a test.
func TestDocumentedTestsExist(t *testing.T) {
	root := filepath.Join("..", "..")
	exist := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((Test|Fuzz)\w+)\(`)
	var documents []string
	ok(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root {
			return fs.SkipDir
		}
		switch {
		case strings.HasSuffix(path, ".md"):
			documents = append(documents, path)
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
				exist[found[1]] = true
			}
			return err
		}
		return nil
	}))
	if len(exist) < 100 || len(documents) < 10 {
		t.Fatalf("%d tests and %d documents were found", len(exist), len(documents))
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`")
	for _, document := range documents {
		text, err := os.ReadFile(document)
		ok(t, err)
		for _, found := range named.FindAllStringSubmatch(string(text), -1) {
			if !exist[found[1]] {
				t.Errorf("%s names %s, which is no test", document, found[1])
			}
		}
	}

	var security []byte
	for _, name := range []string{"security.md", "gate.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", "how-it-works", name))
		ok(t, err)
		security = slices.Concat(security, text, []byte("\n"))
	}
	rows := 0
	var head []string
	for line := range strings.Lines(string(security)) {
		cells := cellsOf(line)
		if cells == nil {
			head = nil
			continue
		}
		if head == nil {
			head = cells
		}
		cannot, shown := slices.Index(head, "cannot"), max(slices.Index(head, "shown by"), slices.Index(head, "test"))
		if cannot < 0 || shown < 0 || len(cells) != len(head) || slices.Equal(cells, head) ||
			strings.Trim(cells[0], "-") == "" {
			continue
		}
		rows++
		if cells[cannot] != "" && !named.MatchString(cells[shown]) {
			t.Errorf("no test shows that %q cannot %s", cells[0], cells[cannot])
		}
	}
	if rows < 10 {
		t.Errorf("only %d rows of docs/how-it-works/security.md and gate.md were read", rows)
	}
}

// cellsOf returns the cells of a table row; nil if the line is no row.
func cellsOf(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}
