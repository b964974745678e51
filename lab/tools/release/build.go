package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"time"
)

// build builds the program for an architecture, with the flags of `make build`.
func (r release) build(ctx context.Context, work, arch string) (string, error) {
	binary := filepath.Join(work, "reconfigure-"+arch)
	env := []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch}
	argv := []string{"go", "build", "-trimpath", "-ldflags=-w", "-tags=urfave_cli_no_docs", "-buildvcs=true",
		"-o", binary, "./cmd/reconfigure"}
	if _, err := r.runIn(ctx, env, argv...); err != nil {
		return "", err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", err
	}
	return binary, r.check(info)
}

// check compares the version that Go has found with the one that is released: Go adds +dirty if the checkout differs
// from the commit.
func (r release) check(info *debug.BuildInfo) error {
	if want := "v" + r.version; info.Main.Version != want {
		return fmt.Errorf("the program's version is %s, but must be %s: release from a checkout without changes or "+
			"untracked files, of a commit with no other tag", info.Main.Version, want)
	}
	return nil
}

// modules writes the list of a binary's modules (CycloneDX), with the time of the commit.
func (r release) modules(ctx context.Context, binary, file string) error {
	if _, err := r.run(ctx, "go", "tool", "-modfile=lab/tools/sbom/go.mod", "cyclonedx-gomod", "bin", "-json", "-std",
		"-noserial", "-output", file, binary); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text = timestamp.ReplaceAll(text, []byte(`"timestamp": "`+r.time.Format(time.RFC3339)+`"`))
	return os.WriteFile(file, text, 0o644)
}

var timestamp = regexp.MustCompile(`"timestamp": "[^"]*"`)
