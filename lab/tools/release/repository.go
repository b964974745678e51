package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// index writes the files that make dir a repository of apt (Debian Repository Format, flat repositories).
func (r release) index(ctx context.Context, dir string) error {
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	var packages bytes.Buffer
	for _, deb := range debs {
		fields, err := r.run(ctx, "dpkg-deb", "--field", deb)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(deb)
		if err != nil {
			return err
		}
		fmt.Fprintf(&packages, "%s\nFilename: ./%s\nSize: %d\nSHA256: %x\n\n", fields, filepath.Base(deb), len(content),
			sha256.Sum256(content))
	}
	text := fmt.Appendf(nil, "Origin: eiffel\nLabel: eiffel\nSuite: stable\nArchitectures: %s\nDate: %s\n"+
		"Description: eiffel %s\nSHA256:\n %x %d Packages\n", strings.Join(r.arches, " "),
		r.time.Format("Mon, 02 Jan 2006 15:04:05 MST"), r.version, sha256.Sum256(packages.Bytes()), packages.Len())
	return errors.Join(os.WriteFile(filepath.Join(dir, "Packages"), packages.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "Release"), text, 0o644))
}

// sumsName is the file of the checksums of all other files, as sha256sum writes it.
const sumsName = "SHA256SUMS"

func sums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsName), text.Bytes(), 0o644)
}

// sign writes the signatures of the checksums and, for apt, of the index, and the public key.
func (r release) sign(ctx context.Context, dir string) error {
	gpg := func(args ...string) error {
		_, err := r.run(ctx, append([]string{"gpg", "--batch", "--no-tty", "--local-user", r.key}, args...)...)
		return err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	return errors.Join(
		gpg("--armor", "--detach-sign", "--output", in(sumsName+".asc"), in(sumsName)),
		gpg("--clear-sign", "--output", in("InRelease"), in("Release")),
		gpg("--armor", "--output", in("eiffel.asc"), "--export", r.key),
	)
}
