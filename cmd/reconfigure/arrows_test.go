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

// arrows is the design: for each package of reconfigure, which of our packages it may import, by their paths below that
// folder; "." is the vocabulary. Packages of values come first, and those that wire everything together come last.
var arrows = map[string]string{
	"nodeset":                 "",
	".":                       "nodeset",
	"text":                    "nodeset",
	"process":                 "",
	"process/listener":        "",
	"process/sockets":         "",
	"process/logfile":         "",
	"sleep":                   "",
	"batcher":                 "",
	"slurmconf":               ". nodeset",
	"snapshot":                ". nodeset",
	"plan":                    ". nodeset snapshot",
	"provision":               ". nodeset sleep plan batcher",
	"operation":               ". nodeset sleep snapshot plan batcher provision",
	"controller":              ". nodeset sleep snapshot plan operation",
	"campaign":                ". nodeset snapshot",
	"check":                   ". nodeset plan text slurmconf",
	"attach":                  ". nodeset text slurmconf check",
	"reconcile":               ". nodeset sleep snapshot",
	"spare":                   ". nodeset plan",
	"status":                  ". nodeset snapshot plan reconcile text",
	"usage":                   ". nodeset text",
	"explain":                 ". nodeset text snapshot plan usage",
	"notify":                  ". nodeset reconcile",
	"metrics":                 ". nodeset sleep process/listener snapshot reconcile usage",
	"web":                     ". nodeset text process/listener snapshot reconcile status usage explain",
	"config":                  ". nodeset text slurmconf",
	"journal":                 ". nodeset",
	"backup":                  "",
	"adopt":                   ". nodeset",
	"recovery":                ". nodeset",
	"gate":                    ". nodeset",
	"simulate":                ". nodeset operation journal/memory",
	"journal/memory":          ". nodeset",
	"simulate/storm":          "",
	"terraform":               ". nodeset sleep",
	"sitefiles":               "nodeset text",
	"assets":                  "/terraform /ansible /slurmscripts /systemd",
	"ansible":                 ". nodeset process process/sockets sitefiles",
	"slurm":                   ". nodeset process process/sockets",
	"cloud/openstack":         ". nodeset sleep cloud",
	"operation/operationtest": ". nodeset operation",
	"cloud/cloudtest":         ". nodeset operation",
	"journal/journaltest":     ". nodeset controller campaign operation operation/operationtest ssh",
	"cloud/placement":         ".",
	"cloud":                   ".",
	"cloud/libvirt":           ". nodeset sleep cloud cloud/placement",
	"cloud/vsphere":           ". nodeset sleep cloud cloud/placement",
	"cloud/machines":          ". nodeset cloud process",
	"ssh":                     ". nodeset sleep batcher",
	"configure":               ". nodeset process",
	"site": ". nodeset sleep process process/logfile config journal snapshot operation controller reconcile check " +
		"slurmconf terraform ansible configure slurm ssh sitefiles assets backup " +
		"cloud/openstack cloud/libvirt cloud/vsphere cloud/machines",
	"worker": ". nodeset process process/sockets journal snapshot controller campaign reconcile spare status usage " +
		"metrics notify slurm ansible site",
	"client": ". nodeset text sleep process config gate journal snapshot plan controller campaign status usage explain " +
		"check attach slurmconf terraform ansible sitefiles backup adopt recovery site worker reconcile metrics web",
	"cmd/reconfigure": ". nodeset text process config gate journal controller reconcile status usage explain check attach " +
		"slurm site worker client web",
}

// TestArrows parses the imports of every file of the product. It reads the files itself: with `go list`, the test's
// cached result would stay valid after a change.
func TestArrows(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	for _, top := range []string{"reconfigure", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(path, "testdata") {
				return err
			}
			folder, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			pkg := room(folder)
			allowed, ok := arrows[pkg]
			if !ok {
				t.Errorf("package %s is not in the picture: add it to arrows and to docs/how-it-works/design.md", folder)
			}
			seen[pkg] = true
			for _, imported := range imports(t, path) {
				own, ours := strings.CutPrefix(imported, module)
				if own = room(own); ours && !slices.Contains(strings.Fields(allowed), own) {
					t.Errorf("%s imports %s; %s may import only %s", path, own, pkg, allowed)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for pkg := range arrows {
		if !seen[pkg] {
			t.Errorf("package %s is in the picture, but not in the tree", pkg)
		}
	}
}

// room returns the name of one of our packages in arrows. The top folders with files for the binary have a slash.
func room(pkg string) string {
	if pkg == "reconfigure" {
		return "."
	}
	if inside, ok := strings.CutPrefix(pkg, "reconfigure/"); ok {
		return inside
	}
	if !strings.Contains(pkg, "/") {
		return "/" + pkg
	}
	return pkg
}

// TestACloudIsNamedInItsAdapterAndTheWiringOnly reads the imports and the texts of every file of the product: only
// reconfigure/cloud/NAME and the wiring may name a kind of cloud. The kinds are the folders of the root modules.
func TestACloudIsNamedInItsAdapterAndTheWiringOnly(t *testing.T) {
	root := filepath.Join("..", "..")
	modules, err := os.ReadDir(filepath.Join(root, "terraform"))
	if err != nil {
		t.Fatal(err)
	}
	modules = slices.DeleteFunc(modules, func(e fs.DirEntry) bool { return !e.IsDir() })
	wired := map[string]int{}
	for _, top := range []string{"reconfigure", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file := parse(t, path, parser.SkipObjectResolution)
			for _, cloud := range modules {
				if strings.HasPrefix(path, filepath.Join(root, "reconfigure", "cloud", cloud.Name())+string(filepath.Separator)) {
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
