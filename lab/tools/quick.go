package tools

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// quickPatch is the version of the patch that shortens the waits; a provider with another one is built again. It is
// the last part of the module's path in the binary's build information.
func (p provider) quickPatch() string { return "provider-" + p.version + "-quick-1" }

// fixedWait matches two fields of a retry.StateChangeConf: the delay of the first poll, and the least time between two
// polls.
var fixedWait = regexp.MustCompile(
	`(?m)^(\s+)Delay:\s+(?:0|\d+ \* time\.Second),\n\s+MinTimeout:\s+\d+ \* time\.Second,$`)

// shorten replaces the fixed waits of one of the provider's files. With a PollInterval, the time between polls stays
// constant.
func shorten(source []byte, want int) ([]byte, error) {
	if found := len(fixedWait.FindAll(source, -1)); found != want {
		return nil, fmt.Errorf("%d fixed waits, not %d", found, want)
	}
	return fixedWait.ReplaceAll(source,
		[]byte("${1}Delay: 20 * time.Millisecond,\n${1}PollInterval: 50 * time.Millisecond,")), nil
}

// buildQuick builds the provider with its fixed waits shortened, from a copy of
// its module: `go build -overlay` refuses files of the module cache.
func (p provider) buildQuick(ctx context.Context, wrapper, file string) (err error) {
	source, err := moduleDir(ctx, wrapper, p.module)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), "quick-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	patched := filepath.Join(dir, p.quickPatch())
	if err := os.CopyFS(patched, os.DirFS(source)); err != nil {
		return fmt.Errorf("copy provider: %w", err)
	}
	for name, want := range p.waits {
		if err := shortenFile(filepath.Join(patched, "openstack", name), want); err != nil {
			return err
		}
	}
	if err := copyModule(wrapper, dir); err != nil {
		return err
	}
	replace := exec.CommandContext(ctx, "go", "mod", "edit", "-replace", p.module+"="+patched)
	replace.Dir = dir
	if out, err := replace.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w:\n%s", replace, err, out)
	}
	return build(ctx, dir, p.module, file)
}

// moduleDir returns the folder in the module cache of a module that wrapper requires.
func moduleDir(ctx context.Context, wrapper, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir, cmd.Stderr = wrapper, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil || found.Dir == "" {
		return "", fmt.Errorf("%s: no folder in %s", cmd, out)
	}
	return found.Dir, nil
}

func shortenFile(path string, want int) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	short, err := shorten(source, want)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return os.WriteFile(path, short, 0o600)
}

func copyModule(from, to string) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// isQuick reports whether the file is the provider with the patch quickPatch.
func (p provider) isQuick(file string) bool {
	info, err := buildinfo.ReadFile(file)
	return err == nil && info.Main.Path == p.module && info.Main.Replace != nil &&
		filepath.Base(info.Main.Replace.Path) == p.quickPatch()
}
