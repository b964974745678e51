package process_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// TestAProgramEndsWithAKilledCaller kills the caller of Run, whose program has a child.
func TestAProgramEndsWithAKilledCaller(t *testing.T) {
	for name, first := range map[string]string{"interrupted": ":;", "they ignore the interrupt": "trap '' INT;"} {
		t.Run(name, func(t *testing.T) {
			program, child := filepath.Join(t.TempDir(), "program"), filepath.Join(t.TempDir(), "child")
			cmd := play(t, "owner", program, child, first)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pids := []int{pidFrom(t, program), pidFrom(t, child)}
			for _, pid := range pids {
				if !running(pid) {
					t.Fatal("the program does not run")
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			for _, pid := range pids {
				eventually(t, "the program has ended", func() bool { return !running(pid) })
			}
		})
	}
}

// TestNothingIsLeftOfAProgramThatEnds looks for remains of the watch over a program.
func TestNothingIsLeftOfAProgramThatEnds(t *testing.T) {
	seconds := 1e6 + os.Getpid() // arguments that no other process has
	err := process.Run(
		context.Background(), process.Cmd{Path: "/bin/true", Grace: time.Duration(seconds) * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), fmt.Sprintf("\x00%d\x00", seconds)) {
			t.Errorf("%s: %q", path, text)
		}
	}
}
