package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Packages that the playbooks install in a machine.
type Packages []string

// Accounting returns the packages that a control node needs for accounting and that the base lacks.
func Accounting() Packages { return Packages{"mariadb-server", "slurmdbd"} }

// ControlHost returns the packages that an administrator installs on a control host and that the base lacks.
func ControlHost() Packages { return Packages{"ansible-core", "make", "polkitd"} }

// ComputeNode returns the packages that a compute node of a bare base needs, and one that its first boot installs.
func ComputeNode() Packages { return Packages{"munge", "slurmd", "slurm-client", "less"} }

// archivePath is the folder of the packages in a machine.
const archivePath = "/var/local/packages"

// archiveStamp is the file of an archive with the digest of its inputs.
const archiveStamp = "recipe"

// ArchiveIsCurrent reports whether dir has all files that a machine of the base needs to install the packages.
func ArchiveIsCurrent(dir, base string, packages Packages) bool {
	digest, err := packages.digest(base)
	found, readErr := os.ReadFile(filepath.Join(dir, archiveStamp))
	return err == nil && readErr == nil && string(found) == digest
}

// BuildArchive downloads the packages with their dependencies that the base lacks, and replaces dir with them. It needs
// apt, the network and about 5 s. An interrupted build leaves dir+".new", which the next build removes.
func BuildArchive(ctx context.Context, dir, base string, packages Packages) error {
	fresh := dir + ".new"
	err := os.RemoveAll(fresh)
	if err == nil {
		err = packages.download(ctx, fresh, base)
	}
	if err == nil {
		err = errors.Join(os.RemoveAll(dir), os.Rename(fresh, dir))
	}
	if err != nil {
		return fmt.Errorf("download packages for machines: %w", err)
	}
	return nil
}

// download makes the host's apt find the packages that the base lacks. apt writes only below dir.
func (p Packages) download(ctx context.Context, dir, base string) error {
	digest, err := p.digest(base)
	if err != nil {
		return err
	}
	release, err := codename(base)
	if err != nil {
		return err
	}
	sources, err := hostSources("/etc/apt", release)
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		sources = []string{sourceLine("http://deb.debian.org/debian", release)}
	}
	scratch := filepath.Join(dir, "apt")
	defer func() { _ = os.RemoveAll(scratch) }()
	for _, sub := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(scratch, sub), 0o755); err != nil {
			return err
		}
	}
	list := filepath.Join(scratch, "sources.list")
	if err := writeFile(list, []byte(strings.Join(sources, "\n")+"\n")); err != nil {
		return err
	}
	options := []string{
		"--quiet", "--yes", "--no-install-recommends", "--download-only", "-o", "Debug::NoLocking=1",
		"-o", "APT::Sandbox::User=root", "-o", "Dir::Etc::SourceList=" + list, "-o", "Dir::Etc::SourceParts=-",
		"-o", "Dir::State=" + scratch, "-o", "Dir::Cache=" + filepath.Join(scratch, "cache"),
		"-o", "Dir::State::Status=" + filepath.Join(base, "var/lib/dpkg/status"),
	}
	for _, words := range [][]string{{"update"}, append([]string{"install"}, p...)} {
		if err := run(exec.CommandContext(ctx, "apt-get", append(options, words...)...)); err != nil {
			return err
		}
	}
	packages, err := filepath.Glob(filepath.Join(scratch, "cache/archives/*.deb"))
	if err != nil {
		return err
	}
	index, err := packageIndex(ctx, packages)
	if err != nil {
		return err
	}
	for _, path := range packages {
		if err := os.Rename(path, filepath.Join(dir, archiveName(path))); err != nil {
			return err
		}
	}
	return errors.Join(writeFile(filepath.Join(dir, "Packages"), []byte(index)),
		writeFile(filepath.Join(dir, archiveStamp), []byte(digest)))
}

// codename returns the name of a base's release of Debian; see os-release(5).
func codename(base string) (string, error) {
	const path, key = "usr/lib/os-release", "VERSION_CODENAME="
	text, err := os.ReadFile(filepath.Join(base, path))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), key); ok {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s/%s has no %s", base, path, key)
}

// packageIndex returns the index that apt reads (Debian Repository Format, "Packages" Indices).
func packageIndex(ctx context.Context, packages []string) (string, error) {
	var index strings.Builder
	for _, path := range packages {
		fields, err := exec.CommandContext(ctx, "dpkg-deb", "--field", path).Output()
		if err != nil {
			return "", fmt.Errorf("dpkg-deb --field %s: %w", path, err)
		}
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		sum := sha256.New()
		size, err := io.Copy(sum, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return "", err
		}
		fmt.Fprintf(&index, "%s\nFilename: ./%s\nSize: %d\nSHA256: %x\n\n", strings.TrimSpace(string(fields)),
			archiveName(path), size, sum.Sum(nil))
	}
	return index.String(), nil
}

// archiveName returns the name of a package in the archive, without the % with which apt writes an epoch.
func archiveName(path string) string { return strings.ReplaceAll(filepath.Base(path), "%3a", "-") }

// digest returns a digest of everything on which an archive depends, except the mirror's state.
func (p Packages) digest(base string) (string, error) {
	status, err := os.ReadFile(filepath.Join(base, "var/lib/dpkg/status"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendln(status, []string(p)))
	return hex.EncodeToString(sum[:]) + "\n", nil
}

// Archive returns the files of an image whose machines install packages from the archive in dir, for [Store.Add].
func Archive(dir string) (map[string]string, error) {
	files := map[string]string{
		"/etc/apt/sources.list": "deb [trusted=yes] file:" + archivePath + " ./\n",
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read packages for machines: %w", err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read packages for machines: %w", err)
		}
		files[archivePath+"/"+entry.Name()] = string(content)
	}
	return files, nil
}
