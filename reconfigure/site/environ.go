package site

import (
	"slices"
	"strings"
)

// Environment is what a worker, and whatever we start, gets of a caller's environment. Slurm and administrators call,
// each with another environment, and whoever is first starts the worker that serves them all: so it gets what says
// where things are on this host, and nothing that says what is to be done. Above all not OS_*, with which an
// administrator's shell would have Terraform work in another project, nor TF_* and ANSIBLE_*, nor an SSH agent, which
// goes when its session does.
func Environment(caller []string) []string {
	names := []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE",
		"TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR", // where providers come from (Terraform, CLI configuration)
		// where clouds.yaml is
		"OS_CLIENT_CONFIG_FILE",
		// not XDG_RUNTIME_DIR, which goes with the session
		"XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_CACHE_HOME",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR",
	}
	prefixes := []string{
		"LC_",
		// the passwords of Terraform's state, which its back ends take from there (s3, pg, http, cloud)
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
