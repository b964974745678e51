package text

import (
	"strings"
	"testing"
)

func TestBrief(t *testing.T) {
	for s, want := range map[string]string{
		"":                 "",
		"no route to host": "no route to host",
		"terraform plan: exit status 1\n\n╷\n│ Error: no such\n│ cloud\n╵\n": "terraform plan: exit status 1 Error: no such cloud",
		strings.Repeat("word ", 50): strings.Repeat("word ", 39) + "word …",
		strings.Repeat("ä", 201):    strings.Repeat("ä", 200) + " …",
		strings.Repeat("ä", 200):    strings.Repeat("ä", 200),
	} {
		line, cut := Brief(s)
		if line != want || cut != strings.HasSuffix(line, "…") {
			t.Errorf("%q becomes %q, cut %v", s, line, cut)
		}
	}
}
