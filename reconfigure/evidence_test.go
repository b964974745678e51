package reconfigure_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestTailBeginsWithAWholeLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"short":        {"a\nb\n", "a\nb\n"},
		"long":         {"first\nsecond\nthe third line\n", "[…]\nthe third line\n"},
		"one line":     {strings.Repeat("x", 30), "[…]\n" + strings.Repeat("x", 18)},
		"in an umlaut": {strings.Repeat("ü", 15) + "!", "[…]\n" + strings.Repeat("ü", 8) + "!"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reconfigure.Tail(c.text, 24); got != c.want {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestTailIsASuffixWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, limit := rapid.String().Draw(t, "text"), rapid.IntRange(6, 40).Draw(t, "limit")
		got := reconfigure.Tail(text, limit)
		if len(got) > limit || !utf8.ValidString(got) || !strings.HasSuffix(text, strings.TrimPrefix(got, "[…]\n")) {
			t.Fatalf("of %q with a limit of %d: %q", text, limit, got)
		}
	})
}

func TestOutputIsAttachedToTheErrorAndNotInItsText(t *testing.T) {
	err := fmt.Errorf("configure: %w", reconfigure.WithOutput("No space left\n",
		reconfigure.Classify(reconfigure.ClassPlaybook, errors.New("it failed"))))
	if got := reconfigure.OutputOf(err); got != "No space left\n" {
		t.Errorf("the output is %q", got)
	}
	if err.Error() != "configure: it failed" || reconfigure.ClassOf(err) != reconfigure.ClassPlaybook {
		t.Errorf("the error is %q, of class %s", err, reconfigure.ClassOf(err))
	}
	if reconfigure.WithOutput("x", nil) != nil || reconfigure.OutputOf(errors.New("x")) != "" {
		t.Error("there is unexpected output")
	}
}
