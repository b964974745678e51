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
)

// buildPatched builds the program of a module as build does, from a copy of its source that patch has changed: `go
// build -overlay` refuses files of the module cache. name is the patch's version: hasPatch finds it in the program.
func buildPatched(
	ctx context.Context, wrapper, module, name, file string, patch func(source string) error,
) (err error) {
	source, err := moduleDir(ctx, wrapper, module)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), "patch-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	patched := filepath.Join(dir, name)
	if err := os.CopyFS(patched, os.DirFS(source)); err != nil {
		return fmt.Errorf("copy %s: %w", module, err)
	}
	if err := patch(patched); err != nil {
		return fmt.Errorf("patch %s: %w", module, err)
	}
	if err := copyModule(wrapper, dir); err != nil {
		return err
	}
	replace := exec.CommandContext(ctx, "go", "mod", "edit", "-replace", module+"="+patched)
	replace.Dir = dir
	if out, err := replace.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w:\n%s", replace, err, out)
	}
	return build(ctx, dir, module, file)
}

// hasPatch reports whether the file is a program that buildPatched has built from that module with that patch.
func hasPatch(file, module, name string) bool {
	info, err := buildinfo.ReadFile(file)
	return err == nil && info.Main.Path == module && info.Main.Replace != nil &&
		filepath.Base(info.Main.Replace.Path) == name
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

// rewrite changes a file of a source.
func rewrite(file string, change func(text []byte) ([]byte, error)) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if text, err = change(text); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return os.WriteFile(file, text, 0o600)
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
