package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/klauspost/compress/gzip"
)

// file is one file of a package.
type file struct {
	path    string // absolute, where it is installed
	content []byte
	mode    fs.FileMode
}

//go:embed package
var scripts embed.FS

const (
	docFolder  = "/usr/share/doc/eiffel"
	ruleName   = "50-reconfigure-worker.rules"
	unitFolder = "/usr/lib/systemd/system/"
)

var unitNames = []string{"reconfigure-worker@.service", "reconfigure-backup@.service", "reconfigure-backup@.timer"}

// files returns the files of a package by their paths. The program native runs on this computer.
func (r release) files(ctx context.Context, native, binary string) ([]file, error) {
	all := map[string][]byte{}
	var errs []error
	add := func(path string, content []byte, err error) {
		all[path] = content
		errs = append(errs, err)
	}
	read := func(path ...string) ([]byte, error) {
		return os.ReadFile(filepath.Join(append([]string{r.checkout}, path...)...))
	}
	printed := func(args ...string) ([]byte, error) {
		out, err := r.run(ctx, append([]string{native}, args...)...)
		return []byte(out + "\n"), err
	}
	zipped := func(content []byte, err error) ([]byte, error) { return compress(content, gzip.BestCompression), err }

	content, err := os.ReadFile(binary)
	add("/usr/bin/reconfigure", content, err)
	for _, name := range unitNames {
		content, err = read("systemd", name)
		if err == nil {
			content, err = installedUnit(name, content)
		}
		add(unitFolder+name, content, err)
	}
	content, err = read("systemd", ruleName)
	add("/usr/share/polkit-1/rules.d/"+ruleName, content, err)
	for shell, path := range map[string]string{
		"bash": "/usr/share/bash-completion/completions/reconfigure",
		"zsh":  "/usr/share/zsh/vendor-completions/_reconfigure",
		"fish": "/usr/share/fish/vendor_completions.d/reconfigure.fish",
	} {
		content, err = printed("completion", shell)
		add(path, content, err)
	}
	content, err = printed("man")
	content, err = zipped(md2man.Render(content), err)
	add("/usr/share/man/man1/reconfigure.1.gz", content, err)
	content, err = scripts.ReadFile("package/copyright")
	add(docFolder+"/copyright", content, err)
	content, err = zipped(r.licenses(ctx, binary))
	add(docFolder+"/third-party-licenses.txt.gz", content, err)
	add(docFolder+"/changelog.gz", compress(r.changelog(), gzip.BestCompression), nil)
	pages, err := r.pages(ctx)
	errs = append(errs, err)
	for _, page := range pages {
		content, err = read(page)
		add(path.Join(docFolder, page), content, err)
	}

	var list []file
	for path, content := range all {
		mode := fs.FileMode(0o644)
		if path == "/usr/bin/reconfigure" {
			mode = 0o755
		}
		list = append(list, file{path, content, mode})
	}
	slices.SortFunc(list, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return list, errors.Join(errs...)
}

// pages returns the documents, which the program's messages name by their paths, and the rules for Prometheus.
func (r release) pages(ctx context.Context) ([]string, error) {
	out, err := r.run(ctx, "git", "ls-files", "README.md", "CHANGELOG.md", "SECURITY.md", "docs/*.md", "docs/*.yml",
		"docs/*.svg", "monitoring/*")
	return strings.Fields(out), err
}

// installedUnit returns a unit for a program that is not in the cluster directory.
func installedUnit(name string, unit []byte) ([]byte, error) {
	text := string(unit)
	changes := [][2]string{
		{"Documentation=file:%f/docs/", "Documentation=man:reconfigure(1) file:" + docFolder + "/docs/"},
	}
	if strings.HasSuffix(name, ".service") {
		changes = append(changes,
			[2]string{"ExecStart=%f/bin/reconfigure ", "ExecStart=/usr/bin/reconfigure "},
			[2]string{" /opt/eiffel` prints", " /etc/eiffel/NAME` prints"},
			[2]string{"# The owner of the checkout; use", "# The owner of the directory; use"})
	}
	for _, change := range changes {
		if strings.Count(text, change[0]) != 1 {
			return nil, fmt.Errorf("systemd/%s must have %q once", name, change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return []byte(text), nil
}

var licenseFile = regexp.MustCompile(`^(?i)(licen[cs]e|copying|notice|patents)(\.(md|txt))?$`)

// licenses returns the licenses of the modules in a binary, and of Go.
func (r release) licenses(ctx context.Context, binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	root, err := r.run(ctx, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	folders := map[string]string{"Go": root}
	argv := []string{"go", "list", "-m", "-json=Path,Dir"}
	for _, module := range info.Deps {
		argv = append(argv, module.Path)
	}
	out, err := r.run(ctx, argv...)
	if err != nil {
		return nil, err
	}
	for modules := json.NewDecoder(strings.NewReader(out)); modules.More(); {
		var module struct{ Path, Dir string }
		if err := modules.Decode(&module); err != nil {
			return nil, err
		}
		folders[module.Path] = module.Dir
	}
	var text bytes.Buffer
	for _, name := range append([]string{"Go"}, paths(info)...) {
		entries, err := os.ReadDir(folders[name])
		if err != nil {
			return nil, err
		}
		found := false
		for _, entry := range entries {
			if !licenseFile.MatchString(entry.Name()) || entry.IsDir() {
				continue
			}
			content, err := os.ReadFile(filepath.Join(folders[name], entry.Name()))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&text, "==== %s: %s\n\n%s\n\n", name, entry.Name(), bytes.TrimSpace(content))
			found = true
		}
		if !found && name != "Go" {
			return nil, fmt.Errorf("the module %s has no license in %s", name, folders[name])
		}
	}
	return text.Bytes(), nil
}

func paths(info *buildinfo.BuildInfo) (names []string) {
	for _, module := range info.Deps {
		names = append(names, module.Path)
	}
	return names
}

// changelog returns a changelog in Debian's format, which apt shows.
func (r release) changelog() []byte {
	return fmt.Appendf(nil,
		"eiffel (%s) unstable; urgency=medium\n\n  * %s/CHANGELOG.md lists the changes.\n\n -- %s  %s\n",
		debianVersion(r.version), docFolder, maintainer, r.time.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
}

// compress returns the content as gzip -n does. Debian's policy wants the best compression for documents (12.7,
// "Changelog files and release notes").
func compress(content []byte, level int) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, level)
	if err == nil {
		_, err = w.Write(content)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		panic(err) // a buffer accepts everything
	}
	return out.Bytes()
}
