package text

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWrapKeepsWordsAndBreaks(t *testing.T) {
	for _, tc := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 10, nil},
		{"  \n ", 10, nil},
		{"one two three four five six", 20, []string{"one two three four", "five six"}},
		{"first\nsecond line", 40, []string{"first", "second line"}},
		{"first\n\nsecond", 40, []string{"first", "", "second"}},
		{"see https://example.org/a/long/path now", 20, []string{"see", "https://example.org/a/long/path", "now"}},
		{"größer als größer als", 20, []string{"größer als größer", "als"}},
		{"more than a terminal is wide", -4, []string{"more than a terminal", "is wide"}},
	} {
		if diff := cmp.Diff(tc.want, Wrap(tc.text, tc.width)); diff != "" {
			t.Errorf("%q in %d (-want +got):\n%s", tc.text, tc.width, diff)
		}
	}
}

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m01s",
		3*time.Hour + 20*time.Minute: "3h20m", 98 * time.Hour: "4d02h",
	} {
		if got := Span(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	rows := [][]string{
		{"NODE", "EMPTY", "WHAT", "WHY"},
		{"a", "", "größer", ""},
		{"node01", "", "", "since a disk\nis full"},
	}
	for width, want := range map[int]string{
		0:  "NODE    WHAT    WHY\na       größer  -\nnode01  -       since a disk\n                is full\n",
		18: "NODE    WHAT    W…\na       größer  -\nnode01  -       s…\n                i…\n",
	} {
		var b strings.Builder
		if err := Table(&b, rows, width); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
	}
}
