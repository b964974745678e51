package main

import (
	"os/exec"
	"testing"
)

func TestWhichPagerIsUsed(t *testing.T) {
	for name, test := range map[string]struct {
		value     string
		set       bool
		installed string
		want      string
	}{
		"without PAGER":       {"", false, "/usr/bin/less", "/usr/bin/less"},
		"without less either": {"", false, "", ""},
		"another one":         {"most -w", true, "/usr/bin/less", "most -w"},
		"an empty one":        {"", true, "/usr/bin/less", ""},
		"cat":                 {"cat", true, "/usr/bin/less", ""},
	} {
		got := pager(func(string) (string, bool) { return test.value, test.set },
			func(string) (string, error) {
				if test.installed == "" {
					return "", exec.ErrNotFound
				}
				return test.installed, nil
			})
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
