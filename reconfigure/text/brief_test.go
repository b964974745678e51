package text

import (
	"strings"
	"testing"
)

func TestBrief(t *testing.T) {
	ours := strings.Repeat("our own words ", 40) + "end"
	for s, want := range map[string]string{
		"":                  "",
		"no route\nto host": "no route to host",
		ours:                ours,
		"it failed:\n\nError: no such cloud\n\nIt is not there.\n":      "it failed: Error: no such cloud It is not there.",
		"it failed: exit status 1\n\n╷\n│ Error: no such\n│ cloud\n╵\n": "it failed: exit status 1 Error: no such cloud",
		ours + ":\n╷\n│ Error: " + strings.Repeat("x ", 200):            ours + ": Error: " + strings.Repeat("x ", 96) + "…",
		"init:\nError: " + strings.Repeat("ä", 300):                     "init: Error: …",
	} {
		line, cut := Brief(s)
		if line != want || cut != strings.HasSuffix(line, "…") {
			t.Errorf("%q becomes %q, cut %v, want %q", s, line, cut, want)
		}
	}
}
