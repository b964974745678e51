package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

const (
	root  = ".."
	index = "docs/README.md"
)

// Limits of a page under docs, so that it can be read in one go and in a terminal.
const (
	mostLines  = 150
	mostColumn = 120
	// written marks a page that a program writes. It may be longer.
	written = "<!-- Written by "
)

// page is a Markdown file of the checkout.
type page struct {
	path    string // relative to the checkout
	source  string
	links   []string        // destinations, as written
	anchors map[string]bool // ids of the headings
}

// pages returns every Markdown file of the checkout by its path.
func pages(t *testing.T) map[string]page {
	t.Helper()
	all := map[string]page{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		all[name] = read(name, source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d pages were found", len(all))
	}
	return all
}

func read(path string, source []byte) page {
	p := page{path: path, source: string(source), anchors: map[string]bool{}}
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	tree := markdown.Parser().Parse(text.NewReader(source))
	_ = ast.Walk(tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := node.(type) {
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
		case *ast.Heading:
			if id, ok := n.AttributeString("id"); ok {
				p.anchors[string(id.([]byte))] = true
			}
		}
		return ast.WalkContinue, nil
	})
	return p
}

// TestLinksLeadSomewhere follows every link between files of the checkout, and every anchor.
func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	followed := 0
	for _, p := range all {
		for _, link := range p.links {
			if problem := follow(all, p, link); problem != "" {
				t.Errorf("%s links to %s: %s", p.path, link, problem)
			}
			followed++
		}
	}
	if followed < 100 {
		t.Errorf("only %d links were found", followed)
	}
}

// follow returns the fault of a link; "" if there is none. Links to other hosts are not followed.
func follow(all map[string]page, from page, link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" {
		return ""
	}
	target := from.path
	if u.Path != "" {
		target = filepath.Join(filepath.Dir(from.path), u.Path)
		if _, err := os.Stat(filepath.Join(root, target)); err != nil {
			return "there is no such file"
		}
	}
	if u.Fragment != "" && !all[target].anchors[u.Fragment] {
		return "the page has no such heading"
	}
	return ""
}

// TestTheIndexLeadsToEachPage follows the links of the index, and of the pages that they lead to, below docs.
func TestTheIndexLeadsToEachPage(t *testing.T) {
	all := pages(t)
	reached := map[string]bool{}
	var visit func(path string)
	visit = func(path string) {
		if reached[path] || !strings.HasPrefix(path, "docs/") {
			return
		}
		reached[path] = true
		for _, link := range all[path].links {
			visit(filepath.Join(filepath.Dir(path), link))
		}
	}
	for _, link := range append(all[index].links, filepath.Base(index)) {
		visit(filepath.Join(filepath.Dir(index), link))
	}
	for path := range all {
		if strings.HasPrefix(path, "docs/") && !reached[path] {
			t.Errorf("no page that %s leads to links to %s", index, path)
		}
	}
}

// TestPagesAreShort keeps pages under docs, except those that a program writes, and the pages beside them, in limits.
// Lines of tables, and code, may be longer.
func TestPagesAreShort(t *testing.T) {
	for _, p := range pages(t) {
		if strings.Contains(p.source, written) || strings.Contains(p.path, "testdata") {
			continue
		}
		lines := strings.Split(strings.TrimSuffix(p.source, "\n"), "\n")
		if len(lines) > mostLines && strings.HasPrefix(p.path, "docs/") {
			t.Errorf("%s has %d lines; divide it by task", p.path, len(lines))
		}
		fenced := false
		for i, line := range lines {
			fence := strings.HasPrefix(strings.TrimSpace(line), "```")
			fenced = fenced != fence
			if fenced || strings.HasPrefix(line, "|") || strings.HasPrefix(strings.TrimSpace(line), "<!--") ||
				strings.HasPrefix(line, "    ") || !strings.Contains(line, " ") {
				continue
			}
			if n := utf8.RuneCountInString(line); n > mostColumn {
				t.Errorf("%s:%d has %d columns", p.path, i+1, n)
			}
		}
	}
}
