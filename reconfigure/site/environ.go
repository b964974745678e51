package site

import (
	"slices"
	"strings"
)

// Environment returns the part of a caller's environment that a worker and other started programs get. Slurm and
// administrators call with different environments, and the first caller starts the worker that serves them all. So
// the worker gets variables that locate things on this host, but none that change its actions: not OS_*, which could
// make Terraform work in another project, not TF_* and ANSIBLE_*, and no SSH agent, which ends with its session.
func Environment(caller []string) []string {
	names := []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE",
		"TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR", // where providers come from (Terraform, CLI configuration)
		// the place of clouds.yaml
		"OS_CLIENT_CONFIG_FILE",
		// not XDG_RUNTIME_DIR, which is removed with the session
		"XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_CACHE_HOME",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR",
	}
	prefixes := []string{
		"LC_",
		// passwords for Terraform's state, which its back ends read from the environment (s3, pg, http, cloud)
		"AWS_", "PG", "TF_HTTP_", "TF_TOKEN_",
		"RECONFIGURE_", "EIFFEL_", // ours
	}
	var kept []string
	for _, entry := range caller {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains(names, name) ||
			slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			kept = append(kept, entry)
		}
	}
	return kept
}
