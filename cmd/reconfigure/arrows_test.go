package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/eiffel-hpc/eiffel/"

// arrows is the design: which of our packages each may import. Vocabulary at the bottom, the command at the top,
// adapters beside each other.
var arrows = map[string][]string{
	"reconfigure/nodeset":   {},
	"reconfigure":           {"reconfigure/nodeset"},
	"reconfigure/text":      {"reconfigure/nodeset"},
	"reconfigure/process":   {},
	"reconfigure/sockets":   {},
	"reconfigure/logfile":   {},
	"reconfigure/batcher":   {},
	"reconfigure/slurmconf": {"reconfigure", "reconfigure/nodeset"},
	"reconfigure/snapshot":  {"reconfigure", "reconfigure/nodeset"},
	"reconfigure/plan":      {"reconfigure", "reconfigure/nodeset", "reconfigure/snapshot"},
	"reconfigure/operation": {
		"reconfigure", "reconfigure/nodeset", "reconfigure/snapshot", "reconfigure/plan", "reconfigure/batcher",
	},
	"reconfigure/controller": {
		"reconfigure", "reconfigure/nodeset", "reconfigure/snapshot", "reconfigure/plan", "reconfigure/operation",
	},
	"reconfigure/campaign":  {"reconfigure", "reconfigure/nodeset", "reconfigure/snapshot"},
	"reconfigure/check":     {"reconfigure", "reconfigure/nodeset", "reconfigure/text", "reconfigure/slurmconf"},
	"reconfigure/reconcile": {"reconfigure", "reconfigure/nodeset", "reconfigure/snapshot"},
	"reconfigure/status": {
		"reconfigure", "reconfigure/nodeset", "reconfigure/snapshot", "reconfigure/reconcile", "reconfigure/text",
	},
	"reconfigure/usage":     {"reconfigure", "reconfigure/nodeset", "reconfigure/text"},
	"reconfigure/config":    {"reconfigure", "reconfigure/nodeset"},
	"reconfigure/journal":   {"reconfigure", "reconfigure/nodeset"},
	"reconfigure/gate":      {"reconfigure", "reconfigure/nodeset"},
	"reconfigure/simulate":  {"reconfigure", "reconfigure/nodeset", "reconfigure/operation"},
	"reconfigure/storm":     {},
	"reconfigure/terraform": {"reconfigure", "reconfigure/nodeset"},
	"reconfigure/sitefiles": {"reconfigure/nodeset", "reconfigure/text"},
	"reconfigure/ansible": {
		"reconfigure", "reconfigure/nodeset", "reconfigure/process", "reconfigure/sockets", "reconfigure/sitefiles",
	},
	"reconfigure/slurm":     {"reconfigure", "reconfigure/nodeset", "reconfigure/process", "reconfigure/sockets"},
	"reconfigure/openstack": {"reconfigure", "reconfigure/nodeset"},
	"reconfigure/hosts":     {"reconfigure"},
	"reconfigure/adapter":   {"reconfigure"},
	"reconfigure/libvirt":   {"reconfigure", "reconfigure/nodeset", "reconfigure/adapter", "reconfigure/hosts"},
	"reconfigure/vsphere":   {"reconfigure", "reconfigure/nodeset", "reconfigure/adapter", "reconfigure/hosts"},
	"reconfigure/machines":  {"reconfigure", "reconfigure/nodeset", "reconfigure/adapter", "reconfigure/process"},
	"reconfigure/ssh":       {"reconfigure", "reconfigure/nodeset"},
	"reconfigure/site": { // ties them all
		"reconfigure", "reconfigure/nodeset", "reconfigure/process", "reconfigure/sockets", "reconfigure/logfile",
		"reconfigure/config", "reconfigure/gate", "reconfigure/journal", "reconfigure/snapshot", "reconfigure/plan",
		"reconfigure/operation", "reconfigure/controller", "reconfigure/campaign", "reconfigure/reconcile",
		"reconfigure/status", "reconfigure/usage", "reconfigure/check",
		"reconfigure/slurmconf", "reconfigure/terraform", "reconfigure/ansible", "reconfigure/slurm", "reconfigure/openstack",
		"reconfigure/ssh", "reconfigure/libvirt", "reconfigure/vsphere", "reconfigure/machines", "reconfigure/sitefiles",
	},
}

// TestArrows parses the imports of every file of the product. It reads the files itself: `go list` would leave the
// test's cache valid after a change.
func TestArrows(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "reconfigure"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.Contains(path, "testdata") {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		allowed, ok := arrows[pkg]
		if !ok {
			t.Errorf("package %s is not in the picture: add it to arrows and to docs/how-it-works/design.md", pkg)
		}
		seen[pkg] = true
		for _, imported := range imports(t, path) {
			if own, ok := strings.CutPrefix(imported, module); ok && !slices.Contains(allowed, own) {
				t.Errorf("%s imports %s; %s may import only %v", path, own, pkg, allowed)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range arrows {
		if !seen[pkg] {
			t.Errorf("package %s is in the picture, but not in the tree", pkg)
		}
	}
}

// TestACloudIsNamedInItsAdapterAndTheWiringOnly reads the imports and the texts of every file of the product: a kind of
// cloud is named in reconfigure/NAME and in the wiring. The kinds are the folders of the root modules.
func TestACloudIsNamedInItsAdapterAndTheWiringOnly(t *testing.T) {
	root := filepath.Join("..", "..")
	modules, err := os.ReadDir(filepath.Join(root, "terraform"))
	if err != nil {
		t.Fatal(err)
	}
	wired := map[string]int{}
	for _, top := range []string{"reconfigure", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file := parse(t, path, parser.SkipObjectResolution)
			for _, cloud := range modules {
				if strings.HasPrefix(path, filepath.Join(root, "reconfigure", cloud.Name())+string(filepath.Separator)) {
					continue
				}
				ast.Inspect(file, func(n ast.Node) bool {
					text, ok := n.(*ast.BasicLit)
					switch {
					case !ok || !strings.Contains(strings.ToLower(text.Value), cloud.Name()):
					case path == filepath.Join(root, "reconfigure", "site", "cloud.go"):
						wired[cloud.Name()]++
					default:
						t.Errorf("%s names %s: %s", path, cloud.Name(), text.Value)
					}
					return true
				})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, cloud := range modules {
		if wired[cloud.Name()] != 1 {
			t.Errorf("the wiring names %s %d times, and once is its import", cloud.Name(), wired[cloud.Name()])
		}
	}
}

// starters are the functions that start a process. Adapters may name the types of os/exec: libraries hand them its
// errors and commands.
var starters = map[string][]string{
	"exec":    {"Command", "CommandContext"},
	"os":      {"StartProcess"},
	"syscall": {"Exec", "ForkExec", "StartProcess"},
}

func TestOnlyProcessStartsProcesses(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, top := range []string{"reconfigure", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(path, "/process/") {
				return err
			}
			ast.Inspect(parse(t, path, parser.SkipObjectResolution), func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if pkg, ok := s.X.(*ast.Ident); ok && slices.Contains(starters[pkg.Name], s.Sel.Name) {
						t.Errorf(
							"%s calls %s.%s; package process is the only one that starts processes",
							path,
							pkg.Name,
							s.Sel.Name,
						)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func parse(t *testing.T, path string, mode parser.Mode) *ast.File {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, mode)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func imports(t *testing.T, path string) []string {
	t.Helper()
	var paths []string
	for _, spec := range parse(t, path, parser.ImportsOnly).Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	return paths
}
