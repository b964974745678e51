package site

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

// TestRecipesAreTrue opens a site of each recipe: a section of docs/guides/recipes.md with a whole
// group_vars/all.yml and, after the name of its file, what else the kind of cloud needs.
func TestRecipesAreTrue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "recipes.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(text), "\n## ")
	for _, section := range sections[1:] {
		title, body, _ := strings.Cut(section, "\n")
		t.Run(title, func(t *testing.T) {
			if anchor := "#" + strings.ReplaceAll(strings.ToLower(title), " ", "-"); !strings.Contains(sections[0], anchor) {
				t.Errorf("the list at the top has no %s", anchor)
			}
			dir := t.TempDir()
			file := config.File
			for i, block := range blocks(body) {
				if i > 0 {
					file = named(t, body, block)
				}
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(strings.ReplaceAll("\n"+block, "\n    ", "\n")), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Open(dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// blocks returns the indented blocks of a text that have several lines.
func blocks(body string) []string {
	return regexp.MustCompile(`(?m)(?:^    .*\n?){2,}`).FindAllString(body, -1)
}

// named returns the name of the file that is said just before a block.
func named(t *testing.T, body, block string) string {
	t.Helper()
	before, _, _ := strings.Cut(body, block)
	found := regexp.MustCompile("`([a-z]+\\.yaml)`:\\s*$").FindStringSubmatch(before)
	if found == nil {
		t.Fatalf("no file is named before\n%s", block)
	}
	return found[1]
}
