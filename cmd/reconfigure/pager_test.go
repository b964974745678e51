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

func TestWhichTerminalsGetColours(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"a terminal":                 {map[string]string{"TERM": "xterm"}, true},
		"NO_COLOR":                   {map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		"an empty NO_COLOR":          {map[string]string{"TERM": "xterm", "NO_COLOR": ""}, true},
		"a dumb terminal":            {map[string]string{"TERM": "dumb"}, false},
		"a terminal of unknown kind": {map[string]string{}, false},
	} {
		got := colourful(func(name string) (string, bool) { value, set := test.env[name]; return value, set })
		if got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestWhatFailedIsRed(t *testing.T) {
	var s screen
	s.WriteString("n1  POWERED_DOWN  boot failed 2m ago: no-ssh\nn2  IDLE  MISSING\nn3  unfailed\n")
	s.colour()
	const want = "n1  POWERED_DOWN  boot \x1b[31mfailed\x1b[m 2m ago: no-ssh\nn2  IDLE  \x1b[31mMISSING\x1b[m\nn3  unfailed\n"
	if got := s.String(); got != want {
		t.Errorf("%q", got)
	}
}
