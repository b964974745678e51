// Command release builds what a release of eiffel consists of: static binaries in archives, packages for Debian and for
// RPM, lists of their modules, checksums, and, with a key, signatures. The folder is also a repository for apt. Without
// the signatures, its bytes depend only on the commit and the release of Go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is what to build.
type release struct {
	checkout string
	version  string // of the tag, without its v
	arches   []string
	key      string    // of GPG; empty: nothing is signed
	time     time.Time // of the commit
}

func main() {
	var r release
	flag.StringVar(&r.checkout, "checkout", ".", "the `FOLDER` of the sources")
	flag.StringVar(&r.version, "version", "", "the `VERSION`: the commit's tag without its v")
	flag.StringVar(&r.key, "key", "", "sign with this secret `KEY` of GPG, as gpg --local-user takes it")
	arches := flag.String("arch", "amd64,arm64", "`ARCHITECTURES` to build for, with commas")
	flag.Parse()
	r.arches = strings.Split(*arches, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.make(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var versions = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)

// make makes the folder of the release, as a whole or not at all.
func (r release) make(ctx context.Context) (err error) {
	if !versions.MatchString(r.version) {
		return fmt.Errorf("%q is no version: give one such as VERSION=0.3.0, for a commit with the tag v0.3.0", r.version)
	}
	if r.checkout, err = filepath.Abs(r.checkout); err != nil {
		return err
	}
	dir := filepath.Join(r.checkout, "dist", "eiffel-"+r.version)
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("%s exists: remove it first", dir)
	}
	tags, err := r.run(ctx, "git", "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(tags), "v"+r.version) {
		return fmt.Errorf("the commit has no tag v%s, from which the program gets its version: make the tag first", r.version)
	}
	seconds, err := r.run(ctx, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("the time of the commit: %w", err)
	}
	r.time = time.Unix(at, 0).UTC()
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	fresh := filepath.Join(work, "release")
	if err := errors.Join(os.Mkdir(fresh, 0o755), r.fill(ctx, work, fresh)); err != nil {
		return err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return err
	}
	fmt.Println(dir)
	if r.key == "" {
		fmt.Println("NOT SIGNED: give KEY, a secret key of GPG")
	}
	return nil
}

// fill writes the files of the release to dir.
func (r release) fill(ctx context.Context, work, dir string) error {
	binaries := map[string]string{}
	for _, arch := range append(slices.Clone(r.arches), runtime.GOARCH) { // this computer's prints the manual page
		if binaries[arch] != "" {
			continue
		}
		var err error
		if binaries[arch], err = r.build(ctx, work, arch); err != nil {
			return err
		}
	}
	native := binaries[runtime.GOARCH]
	for _, arch := range r.arches {
		binary := binaries[arch]
		files, err := r.files(ctx, native, binary)
		if err != nil {
			return err
		}
		if err := errors.Join(
			r.archive(filepath.Join(dir, fmt.Sprintf("eiffel-%s-linux-%s.tar.gz", r.version, arch)), files),
			r.pack(work, dir, arch, files),
			r.modules(ctx, binary, filepath.Join(dir, fmt.Sprintf("eiffel-%s-linux-%s.cdx.json", r.version, arch))),
		); err != nil {
			return err
		}
	}
	if err := errors.Join(r.index(ctx, dir), sums(dir)); err != nil {
		return err
	}
	if r.key == "" {
		return nil
	}
	return r.sign(ctx, dir)
}

// run runs a program in the checkout, and returns what it prints, without the last line feed.
func (r release) run(ctx context.Context, argv ...string) (string, error) {
	return r.runIn(ctx, nil, argv...)
}

// runIn is run with further variables of the environment.
func (r release) runIn(ctx context.Context, env []string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = r.checkout, append(os.Environ(), env...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, said.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
