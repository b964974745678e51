// Package backup writes and reads the file of a backup: a compressed tar archive, whose first member is a manifest with
// the checksums of all others. The file may be encrypted with age. Which files belong into it, and where a restore puts
// them, is not decided here.
package backup

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/google/renameio/v2"
)

const (
	// format is the version of the archive. A reader refuses a later one.
	format       = 1
	manifestName = "manifest.json"
	// mostManifest is the largest size of a manifest, in bytes.
	mostManifest = 64 << 20
	encrypted    = "age-encryption.org/"
)

// Manifest describes a backup.
type Manifest struct {
	Format    int       `json:"format"`
	Program   string    `json:"program"` // the version that wrote it
	Cluster   string    `json:"cluster"`
	ClusterID string    `json:"cluster_id,omitempty"`
	Time      time.Time `json:"time"`
	Host      string    `json:"host"`
	Directory string    `json:"directory"` // the cluster directory on that host
	// StateDirectory and PrivateKey are the places of files outside of the cluster directory: relative paths are in the
	// cluster directory, and those that begin with ~/ in the home of the user.
	StateDirectory string `json:"state_directory"`
	PrivateKey     string `json:"private_key,omitempty"`
	// Schema is the version of the journal's schema; zero: the journal is not in the backup.
	Schema int64  `json:"schema,omitempty"`
	Files  []File `json:"files"`
}

// File is a file of a backup.
type File struct {
	Path   string `json:"path"` // with slashes
	Mode   uint32 `json:"mode"` // permissions
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Member is a file to put into a backup: a content, or the path of a file that nobody changes meanwhile.
type Member struct {
	Path    string
	Mode    fs.FileMode
	Content []byte
	From    string
}

func (m Member) open() (io.ReadCloser, error) {
	if m.From == "" {
		return io.NopCloser(bytes.NewReader(m.Content)), nil
	}
	return os.Open(m.From)
}

func (m Member) describe() (File, error) {
	in, err := m.open()
	if err != nil {
		return File{}, err
	}
	defer in.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, in)
	return File{m.Path, uint32(m.Mode.Perm()), size, hex.EncodeToString(sum.Sum(nil))}, err
}

// Recipients parses public keys of age.
func Recipients(keys []string) (all []age.Recipient, err error) {
	for _, key := range keys {
		one, err := age.ParseX25519Recipient(key)
		if err != nil {
			return nil, fmt.Errorf("%q is no public key of age (age1…): %w", key, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// Write writes a backup with mode 0600. It is complete, or the path is as it was. With recipients it is encrypted.
// Write completes the manifest, and may be retried.
func Write(path string, m Manifest, members []Member, recipients []age.Recipient) (Manifest, error) {
	m.Format, m.Files = format, nil
	for _, member := range members {
		described, err := member.describe()
		if err != nil {
			return m, err
		}
		m.Files = append(m.Files, described)
	}
	out, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o600), renameio.IgnoreUmask())
	if err != nil {
		return m, err
	}
	defer out.Cleanup() //nolint:errcheck // the file is in its place, or the error is returned
	if err := writeTo(out, m, members, recipients); err != nil {
		return m, fmt.Errorf("write %s: %w", path, err)
	}
	return m, out.CloseAtomicallyReplace()
}

func writeTo(out io.Writer, m Manifest, members []Member, recipients []age.Recipient) error {
	closers := []io.Closer{}
	if len(recipients) > 0 {
		sealed, err := age.Encrypt(out, recipients...)
		if err != nil {
			return err
		}
		out, closers = sealed, append(closers, sealed)
	}
	zipped := gzip.NewWriter(out)
	archive := tar.NewWriter(zipped)
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	list := append([]Member{{Path: manifestName, Mode: 0o600, Content: append(text, '\n')}}, members...)
	for _, member := range list {
		if err := add(archive, member, m.Time); err != nil {
			return err
		}
	}
	err = errors.Join(archive.Close(), zipped.Close())
	for _, c := range closers {
		err = errors.Join(err, c.Close())
	}
	return err
}

func add(archive *tar.Writer, m Member, at time.Time) error {
	size := int64(len(m.Content))
	if m.From != "" {
		info, err := os.Stat(m.From)
		if err != nil {
			return err
		}
		size = info.Size()
	}
	in, err := m.open()
	if err != nil {
		return err
	}
	defer in.Close()
	header := &tar.Header{Name: m.Path, Mode: int64(m.Mode.Perm()), Size: size, ModTime: at.Truncate(time.Second)}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, in)
	return err
}

// ErrEncrypted is the error of an encrypted backup for which no key was given.
var ErrEncrypted = errors.New("it is encrypted with age: give --identity, the file of the secret key")

// Extract writes the files of a backup into an empty folder, which only its owner can read, and returns the manifest.
// identity is a file with secret keys of age; empty: the backup must not be encrypted. On an error the folder has no
// complete backup: the file is damaged, is no backup, or has a later format. Extract is not retried in the same folder.
func Extract(path, identity, dir string) (Manifest, error) {
	m, err := extract(path, identity, dir)
	if err != nil {
		err = fmt.Errorf("%s cannot be restored: %w", path, err)
	}
	return m, err
}

func extract(path, identity, dir string) (m Manifest, err error) {
	file, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer file.Close()
	in := bufio.NewReader(file)
	plain, err := decrypt(in, identity)
	if err != nil {
		return m, err
	}
	zipped, err := gzip.NewReader(plain)
	if err != nil {
		return m, fmt.Errorf("it is no backup, or it is damaged: %w", err)
	}
	archive := tar.NewReader(zipped)
	if m, err = readManifest(archive); err != nil {
		return m, err
	}
	for _, want := range m.Files {
		if err := extractOne(archive, want, dir); err != nil {
			return m, err
		}
	}
	if _, err := archive.Next(); err != io.EOF {
		return m, fmt.Errorf("it is damaged: it does not end after the last file of its manifest (%v)", err)
	}
	// The checksum of the compressed data is at its end, after the last block of the archive.
	if _, err := io.Copy(io.Discard, zipped); err != nil {
		return m, fmt.Errorf("it is damaged: %w", err)
	}
	return m, nil
}

// decrypt returns the plain archive.
func decrypt(in *bufio.Reader, identity string) (io.Reader, error) {
	start, err := in.Peek(len(encrypted))
	if err != nil || string(start) != encrypted {
		return in, nil // gzip reports what is wrong
	}
	if identity == "" {
		return nil, ErrEncrypted
	}
	keys, err := os.Open(identity)
	if err != nil {
		return nil, err
	}
	defer keys.Close()
	identities, err := age.ParseIdentities(keys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", identity, err)
	}
	return age.Decrypt(in, identities...)
}

func readManifest(archive *tar.Reader) (m Manifest, err error) {
	header, err := archive.Next()
	if err != nil || header.Name != manifestName {
		return m, fmt.Errorf("it is no backup, or it is damaged: it does not begin with a manifest (%v)", err)
	}
	text, err := io.ReadAll(io.LimitReader(archive, mostManifest))
	if err != nil {
		return m, fmt.Errorf("its manifest: %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("its manifest: %w", err)
	}
	if m.Format != format {
		return m, fmt.Errorf("it has the format %d, and this reconfigure reads %d: use reconfigure %s, which wrote it",
			m.Format, format, m.Program)
	}
	return m, nil
}

// extractOne writes the next file of the archive, which must be as the manifest says.
func extractOne(archive *tar.Reader, want File, dir string) error {
	header, err := archive.Next()
	if err != nil {
		return fmt.Errorf("it is damaged: %s: %w", want.Path, err)
	}
	local := filepath.FromSlash(want.Path)
	if header.Name != want.Path || header.Typeflag != tar.TypeReg || header.Size != want.Size || !filepath.IsLocal(local) {
		return fmt.Errorf("it is damaged: it has %q where its manifest has %q", header.Name, want.Path)
	}
	to := filepath.Join(dir, local)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), archive)
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("%s: %w", want.Path, err)
	}
	if is := hex.EncodeToString(sum.Sum(nil)); is != want.SHA256 {
		return fmt.Errorf("it is damaged: the checksum of %s is %s, and its manifest has %s", want.Path, is, want.SHA256)
	}
	return nil
}

// Portable returns the path of a file for a manifest: relative to a cluster directory, from ~/, or absolute.
func Portable(path, dir, home string) string {
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	if rel, err := filepath.Rel(home, path); err == nil && home != "" && filepath.IsLocal(rel) {
		return "~/" + rel
	}
	return path
}

// Absolute is the inverse of Portable, for another cluster directory and home.
func Absolute(path, dir, home string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(home, rest)
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
