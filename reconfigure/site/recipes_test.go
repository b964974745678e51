package site

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

// TestRecipesAreTrue opens a site for each page in docs/guides/recipes. A page has a whole group_vars/all.yml and,
// after their names, the other files that the kind of cloud needs.
func TestRecipesAreTrue(t *testing.T) {
	recipes, err := filepath.Glob(filepath.Join("..", "..", "docs", "guides", "recipes", "*.md"))
	if err != nil || len(recipes) < 6 {
		t.Fatalf("recipes %q, error %v", recipes, err)
	}
	for _, recipe := range recipes {
		text, err := os.ReadFile(recipe)
		if err != nil {
			t.Fatal(err)
		}
		body := string(text)
		t.Run(filepath.Base(recipe), func(t *testing.T) {
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

// named returns the name of the file that the text mentions just before a block.
func named(t *testing.T, body, block string) string {
	t.Helper()
	before, _, _ := strings.Cut(body, block)
	found := regexp.MustCompile("`([a-z]+\\.yaml)`:\\s*$").FindStringSubmatch(before)
	if found == nil {
		t.Fatalf("no file is named before\n%s", block)
	}
	return found[1]
}
