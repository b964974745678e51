package tools

import (
	"bytes"
	"context"
	_ "embed"
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

// buildQuick builds the provider with its fixed waits shortened.
func (p provider) buildQuick(ctx context.Context, wrapper, file string) error {
	return buildPatched(ctx, wrapper, p.module, p.quickPatch(), file, func(source string) error {
		for name, want := range p.waits {
			err := rewrite(filepath.Join(source, "openstack", name), func(text []byte) ([]byte, error) {
				return shorten(text, want)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// isQuick reports whether the file is the provider with the patch quickPatch.
func (p provider) isQuick(file string) bool { return hasPatch(file, p.module, p.quickPatch()) }

// quickFolder is the name of the folder of a Terraform that omits what takes much of the CPU time of a run with its
// provider: see quickly. The program's name is the same, since tests look for processes by name.
const quickFolder = "quick"

// quickTerraform is the file that is added to Terraform's source.
//
//go:embed quickterraform.go.txt
var quickTerraform []byte

// quickly makes a quick Terraform use no TLS to the provider, for which both would make keys, and not compare the
// provider with its checksum: TF_DISABLE_PLUGIN_TLS disables TLS for test frameworks, but terraform-exec removes that
// variable. It has one process of the provider for all walks: see quickTerraform.
func quickly(source []byte) ([]byte, error) {
	for _, change := range [][2]string{
		{`os.Getenv("TF_DISABLE_PLUGIN_TLS") == ""`, `os.Getenv("TF_DISABLE_PLUGIN_TLS") == "" && !quick`},
		{`len(allowedHashes) != 0`, `len(allowedHashes) != 0 && !quick`},
		{`func providerFactory(`, `func ownProviderFactory(`},
	} {
		if found := bytes.Count(source, []byte(change[0])); found != 1 {
			return nil, fmt.Errorf("%d places with %q, not 1", found, change[0])
		}
		source = bytes.Replace(source, []byte(change[0]), []byte(change[1]), 1)
	}
	return source, nil
}

//go:embed quickansible.py
var quickAnsible string

// buildAnsible is a step that writes a program ansible-playbook to a folder: see quickansible.py. It starts it once, so
// that it has parsed what it keeps.
func buildAnsible(folder string) step {
	file := filepath.Join(folder, "ansible-playbook")
	return step{
		"ansible-playbook for tests",
		func() bool { return hasContent(file, quickAnsible) },
		func(ctx context.Context) error {
			err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755), writeFile(file, quickAnsible),
				os.Chmod(file, 0o755))
			if err != nil {
				return err
			}
			cmd := exec.CommandContext(ctx, file, "--version")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w:\n%s", cmd, err, out)
			}
			return nil
		},
	}
}
