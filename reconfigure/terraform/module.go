package terraform

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// module is the blocks of a root module: those with a resource for each node, and those with shared resources. A block
// is a resource or a module, by its address without instance keys: "TYPE.NAME" or "module.NAME".
type module struct {
	perNode, shared []string
	// kept has the blocks of perNode that belong to a node's address: they stay while the node has no instance.
	kept []string
	// unsharded has the blocks that do not depend on the workspace: each workspace would make them.
	unsharded []string
	// divided reports whether the module reads the nodes of each workspace from its own file.
	divided bool
	shard   string
	kinds   reconfigure.RootModule
}

// moduleFiles returns Terraform's and OpenTofu's configuration files in a folder, in both notations, sorted by name.
func moduleFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		for _, suffix := range []string{".tf", ".tf.json", ".tofu", ".tofu.json"} {
			if !e.IsDir() && strings.HasSuffix(e.Name(), suffix) {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	return files, nil
}

// modules has the module of each folder that was read last, by folder: a large cluster reads its module for dozens of
// workspaces. An entry is used only for the same text of the files.
var modules sync.Map // of parsedModule

type parsedModule struct {
	sum    [sha256.Size]byte
	module module
}

// readModule reads and classifies a root module's blocks. A block belongs to the nodes if its for_each is made from
// var.nodes, directly, through locals, or through another such block; to their addresses if it is also made from
// var.kept_ports. The files are parsed again if they have changed.
func readModule(dir string) (module, error) {
	files, err := moduleFiles(dir)
	if err != nil {
		return module{}, fmt.Errorf("read the root module: %w", err)
	}
	texts, sum := map[string][]byte{}, sha256.New()
	for _, file := range files {
		if texts[file], err = os.ReadFile(file); err != nil {
			return module{}, fmt.Errorf("read the root module: %w", err)
		}
		fmt.Fprintf(sum, "%q %d ", file, len(texts[file]))
		sum.Write(texts[file])
	}
	if last, ok := modules.Load(dir); ok && [sha256.Size]byte(sum.Sum(nil)) == last.(parsedModule).sum {
		return last.(parsedModule).module, nil
	}
	m, err := parseModule(dir, files, texts)
	if err == nil {
		modules.Store(dir, parsedModule{[sha256.Size]byte(sum.Sum(nil)), m})
	}
	return m, err
}

// parseModule is readModule for the texts of the files.
func parseModule(dir string, files []string, texts map[string][]byte) (module, error) {
	found := references{forEach: map[string]hcl.Expression{}, count: map[string]hcl.Expression{},
		locals: map[string]hcl.Expression{}}
	parser := hclparse.NewParser()
	for _, file := range files {
		var parsed *hcl.File
		var problems hcl.Diagnostics
		if strings.HasSuffix(file, ".json") {
			parsed, problems = parser.ParseJSON(texts[file], file)
		} else {
			parsed, problems = parser.ParseHCL(texts[file], file)
		}
		if problems.HasErrors() {
			return module{}, fmt.Errorf("read the root module: %w", problems)
		}
		if problems := found.add(parsed.Body); problems.HasErrors() {
			return module{}, fmt.Errorf("read the root module: %w", problems)
		}
	}
	m := module{divided: found.shard}
	for block, forEach := range found.forEach {
		overNodes, overPorts := found.overNodes(forEach, "var.nodes"), found.overNodes(forEach, "var.kept_ports")
		if overNodes || overPorts {
			m.perNode = append(m.perNode, block)
		} else {
			m.shared = append(m.shared, block)
		}
		if overPorts {
			m.kept = append(m.kept, block)
		}
		if !found.sharded(block) {
			m.unsharded = append(m.unsharded, block)
		}
	}
	for _, blocks := range [][]string{m.perNode, m.shared, m.kept, m.unsharded} {
		slices.Sort(blocks)
	}
	if len(m.perNode) == 0 {
		return module{}, fmt.Errorf("no resource in %s has a for_each over var.nodes: it is not the root module of a "+
			"cluster", dir)
	}
	return m, nil
}

func (d *Driver) read() (module, error) {
	m, err := readModule(d.cfg.Dir)
	m.kinds = d.cfg.Module
	return m, err
}

// references is the expressions of a module's blocks and locals.
type references struct {
	forEach map[string]hcl.Expression // by block; nil if the block has none
	count   map[string]hcl.Expression // by block, if it has one
	locals  map[string]hcl.Expression
	shard   bool // there is a variable "shard"
}

func (r *references) add(body hcl.Body) hcl.Diagnostics {
	content, _, problems := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "resource", LabelNames: []string{"type", "name"}},
		{Type: "module", LabelNames: []string{"name"}},
		{Type: "locals"},
		{Type: "variable", LabelNames: []string{"name"}},
	}})
	if content == nil {
		return problems
	}
	for _, block := range content.Blocks {
		if block.Type == "locals" {
			attributes, more := block.Body.JustAttributes()
			problems = append(problems, more...)
			for name, attribute := range attributes {
				r.locals[name] = attribute.Expr
			}
			continue
		}
		if block.Type == "variable" {
			r.shard = r.shard || block.Labels[0] == "shard"
			continue
		}
		address := strings.Join(block.Labels, ".")
		if block.Type == "module" {
			address = "module." + address
		}
		repetition := []hcl.AttributeSchema{{Name: "for_each"}, {Name: "count"}}
		inner, _, more := block.Body.PartialContent(&hcl.BodySchema{Attributes: repetition})
		problems = append(problems, more...)
		if count, ok := inner.Attributes["count"]; ok {
			r.count[address] = count.Expr
		}
		if forEach, ok := inner.Attributes["for_each"]; ok {
			r.forEach[address] = forEach.Expr
		} else if _, known := r.forEach[address]; !known { // an override file may leave it out
			r.forEach[address] = nil
		}
	}
	return problems
}

// overNodes reports whether a for_each is made from a variable of the nodes.
func (r references) overNodes(forEach hcl.Expression, variable string) bool {
	return r.reaches(forEach, variable, map[string]bool{},
		func(block string) []hcl.Expression { return []hcl.Expression{r.forEach[block]} })
}

// sharded reports whether the number of a block's instances depends on the workspace.
func (r references) sharded(block string) bool {
	repeated := func(block string) []hcl.Expression { return []hcl.Expression{r.forEach[block], r.count[block]} }
	return slices.ContainsFunc(repeated(block), func(e hcl.Expression) bool {
		return r.reaches(e, "terraform.workspace", map[string]bool{}, repeated)
	})
}

// reaches reports whether an expression is made from a name, directly, through locals, or through the for_each and
// count of blocks. It does not follow the names in seen again, so it ends on a cycle, which Terraform reports.
func (r references) reaches(e hcl.Expression, wanted string, seen map[string]bool,
	repeated func(block string) []hcl.Expression) bool {
	if e == nil {
		return false
	}
	return slices.ContainsFunc(e.Variables(), func(t hcl.Traversal) bool {
		name := head(t)
		if name == wanted {
			return true
		}
		if seen[name] {
			return false
		}
		seen[name] = true
		next := repeated(name)
		if local, ok := strings.CutPrefix(name, "local."); ok {
			next = []hcl.Expression{r.locals[local]}
		}
		return slices.ContainsFunc(next, func(e hcl.Expression) bool { return r.reaches(e, wanted, seen, repeated) })
	})
}

// head returns the first two names of a reference: "var.nodes", "local.x", "module.x" or "TYPE.NAME".
func head(t hcl.Traversal) string {
	if len(t) < 2 {
		return t.RootName()
	}
	if attribute, ok := t[1].(hcl.TraverseAttr); ok {
		return t.RootName() + "." + attribute.Name
	}
	return t.RootName()
}

// of returns the addresses of all resources of a node.
func (m module) of(node string) []string { return addresses(m.perNode, node) }

// keptOf returns the addresses of the node's resources that stay while the node has no instance.
func (m module) keptOf(node string) []string { return addresses(m.kept, node) }

func addresses(blocks []string, node string) []string {
	all := make([]string, len(blocks))
	for i, block := range blocks {
		all[i] = instance(block, node)
	}
	return all
}

// keeps reports whether the resource at an address stays while its node has no instance.
func (m module) keeps(address string) bool {
	path, problems := hclsyntax.ParseTraversalAbs([]byte(address), "", hcl.InitialPos)
	return !problems.HasErrors() && slices.Contains(m.kept, head(path))
}

// shards returns an error if the module does not support several workspaces.
func (m module) shards() error {
	if !m.divided {
		return errors.New("the cluster has several Terraform workspaces, and the root module has no variable \"shard\": " +
			"it is older than this reconfigure. If Terraform is called by hand, it would remove the nodes of the other " +
			"workspaces")
	}
	if len(m.unsharded) == 0 {
		return nil
	}
	return fmt.Errorf("the cluster has several Terraform workspaces, each of which would make %s of the root module "+
		"for itself. What belongs to a node needs "+
		"for_each = local.nodes instead of var.nodes; what the nodes share needs count = local.shared ? 1 : 0 "+
		"(see the module's README.md)", strings.Join(m.unsharded, ", "))
}

// plainKey matches keys that are quoted without escapes.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// instance returns the address of a node's resource of a block, quoted as Terraform does.
func instance(block, node string) string {
	if plainKey.MatchString(node) {
		return block + `["` + node + `"]`
	}
	return block + "[" + string(hclwrite.TokensForValue(cty.StringVal(node)).Bytes()) + "]"
}

// owner returns the node that owns the resource at an address; empty for a shared resource. The owner is unknown if
// the block is no longer in the module, or if the key is not a node name. isNode checks keys inside a module and keys
// of removed blocks.
func (m module) owner(address string, isNode func(string) bool) (node string, known bool) {
	// Nearly all resources have an address that need not be parsed.
	if block, rest, ok := strings.Cut(address, `["`); ok && slices.Contains(m.perNode, block) {
		if node, ok := strings.CutSuffix(rest, `"]`); ok && plainKey.MatchString(node) {
			return node, true
		}
	}
	path, problems := hclsyntax.ParseTraversalAbs([]byte(address), "", hcl.InitialPos)
	if problems.HasErrors() || len(path) < 2 {
		return "", false
	}
	block := head(path)
	if slices.Contains(m.perNode, block) {
		if len(path) < 3 {
			return "", false
		}
		return key(path[2])
	}
	for _, step := range path {
		if node, ok := key(step); ok && isNode(node) {
			return node, true
		}
	}
	return "", slices.Contains(m.shared, block)
}

func key(step hcl.Traverser) (string, bool) {
	index, ok := step.(hcl.TraverseIndex)
	if !ok || index.Key.Type() != cty.String {
		return "", false
	}
	return index.Key.AsString(), true
}
