package terraform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"
)

// lockFile is Terraform's file of the selected providers.
const lockFile = ".terraform.lock.hcl"

// lockedProvider matches the beginning of a provider's block in the lock file, which Terraform formats.
var lockedProvider = regexp.MustCompile(`(?m)^provider "([^"]*)" \{\n\s*version\s*= "([^"]*)"`)

// Providers returns the selected versions of the providers of a root module, by their addresses; none before the first
// `terraform init`.
func Providers(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	versions := map[string]string{}
	for _, match := range lockedProvider.FindAllStringSubmatch(string(text), -1) {
		versions[match[1]] = match[2]
	}
	return versions, nil
}

// initialize checks the binary's version and runs `terraform init`, unless the last successful init was for the same
// module, lock file and binary: an init takes a second or more, and may use the network. A lock prevents two
// processes from unpacking the same providers at the same time.
func (d *Driver) initialize(ctx context.Context) error {
	lock := flock.New(filepath.Join(d.cfg.PlanDir, "init.lock"))
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		return fmt.Errorf("terraform init: %w", err)
	}
	defer lock.Unlock() //nolint:errcheck // the kernel drops it with the descriptor

	marker := filepath.Join(d.cfg.Dir, ".terraform", "eiffel.sum")
	sum, err := d.fingerprint()
	if err != nil {
		return fmt.Errorf("terraform init: %w", err)
	}
	if was, err := os.ReadFile(marker); err == nil && string(was) == sum {
		return nil
	}
	if err := checkBinary(ctx, d.cfg.Binary); err != nil {
		return err
	}
	answer := versionFile(d.cfg.Dir)
	if err := os.Remove(answer); err != nil && !os.IsNotExist(err) { // that of another binary
		return fmt.Errorf("terraform init: %w", err)
	}
	var now tfjson.VersionOutput
	// In the default workspace: init fails in one that does not exist yet.
	err = d.with(d.defaultLauncher, func(tf *tfexec.Terraform) error {
		if err := tf.Init(ctx); err != nil {
			return err
		}
		v, _, err := tf.Version(ctx, false) // which init has asked for
		if err == nil {
			now.Version = v.String()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("terraform init in %s; without access to the provider registry, TF_CLI_CONFIG_FILE must "+
			"name a CLI configuration with a mirror of the providers: %w", d.cfg.Dir, orDone(ctx, err))
	}
	// init may have written the lock file.
	if sum, err = d.fingerprint(); err != nil {
		return fmt.Errorf("terraform init: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(marker), 0o755); err != nil { // without providers, init does not make the folder
		return fmt.Errorf("terraform init: %w", err)
	}
	text, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("terraform init: %w", err)
	}
	return errors.Join(renameio.WriteFile(answer, text, 0o644), renameio.WriteFile(marker, []byte(sum), 0o644))
}

// versionFile returns the path of the file with the version of the binary of the last successful init, in the form of
// `terraform version -json`, for launchers.
func versionFile(dir string) string { return filepath.Join(dir, ".terraform", "eiffel.version.json") }

// fingerprint returns a checksum of everything that requires a new init when it changes.
func (d *Driver) fingerprint() (string, error) {
	sum := sha256.New()
	binary, err := os.Stat(d.cfg.Binary)
	if err != nil {
		return "", fmt.Errorf("the configured Terraform: %w", err)
	}
	fmt.Fprintln(sum, d.cfg.Binary, binary.Size(), binary.ModTime().UnixNano())
	files, err := moduleFiles(d.cfg.Dir)
	if err != nil {
		return "", err
	}
	for _, file := range append(files, filepath.Join(d.cfg.Dir, lockFile)) {
		if err := addFile(sum, file); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// addFile adds a file's name and content; a missing file adds nothing.
func addFile(w io.Writer, path string) error {
	content, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s %d\n%s", filepath.Base(path), len(content), content)
	return err
}

// orDone returns the error of the context if it has ended, else err: a cancelled Terraform fails with another error.
func orDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w (%s)", context.Cause(ctx), strings.TrimSpace(err.Error()))
	}
	return err
}
