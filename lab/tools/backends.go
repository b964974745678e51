package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
)

// terraformPatch is the version of the patch of Terraform: see buildTerraform.
const terraformPatch = "terraform-" + TerraformVersion + "-3"

// leftOut are the back ends for states that no test uses. Their clouds' libraries are almost half of the time for which
// Terraform is built.
var leftOut = []string{"Azure", "Consul", "Cos", "GCS", "Kubernetes", "OSS", "S3"}

// buildTerraform builds Terraform without the back ends leftOut. When started from a folder quickFolder, it omits what
// quickly says.
func buildTerraform(ctx context.Context, wrapper, file string) error {
	return buildPatched(ctx, wrapper, terraformModule, terraformPatch, file, func(source string) error {
		return errors.Join(
			rewrite(filepath.Join(source, "internal", "backend", "init", "init.go"), withoutBackends),
			rewrite(filepath.Join(source, "internal", "command", "meta_providers.go"), quickly))
	})
}

// quickFolder is the name of the folder of a Terraform that omits what takes a quarter of the CPU time of a run with
// its provider: see quickly. The program's name is the same, since tests look for processes by name.
const quickFolder = "quick"

// quickly extends two conditions by the folder. The first is that of TLS between Terraform and the provider, for which
// both make keys: TF_DISABLE_PLUGIN_TLS disables it for test frameworks, but terraform-exec removes that variable. The
// second is that of the comparison of the provider with its checksum.
func quickly(source []byte) ([]byte, error) {
	const isQuick = `strings.HasSuffix(os.Args[0], "/` + quickFolder + `/terraform")`
	for _, condition := range []string{
		`os.Getenv("TF_DISABLE_PLUGIN_TLS") == ""`, `len(allowedHashes) != 0`,
	} {
		if found := bytes.Count(source, []byte(condition)); found != 1 {
			return nil, fmt.Errorf("%d conditions %q, not 1", found, condition)
		}
		source = bytes.ReplaceAll(source, []byte(condition), []byte(condition+" && !"+isQuick))
	}
	return source, nil
}

// withoutBackends removes the lines that import and register the back ends leftOut.
func withoutBackends(source []byte) ([]byte, error) {
	for _, name := range leftOut {
		line := regexp.MustCompile(`(?m)^.*\bbackend` + name + `\b.*\n`)
		if found := len(line.FindAll(source, -1)); found != 2 {
			return nil, fmt.Errorf("%d lines with the back end %s, not 2", found, name)
		}
		source = line.ReplaceAll(source, nil)
	}
	return source, nil
}
