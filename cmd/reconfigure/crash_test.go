package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestACrashGivesNoSecretAway crashes calls that have secrets in their environment and wait for input, with the most
// verbose traceback and no limit on core files. Neither the traceback nor a core file may contain a secret.
func TestACrashGivesNoSecretAway(t *testing.T) {
	secrets := []string{"OS_PASSWORD=seeded-for-the-cloud", "PGPASSWORD=seeded-for-the-journal"}
	for _, signal := range []syscall.Signal{syscall.SIGABRT, syscall.SIGQUIT} {
		t.Run(signal.String(), func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -c "$(ulimit -Hc)"; exec reconfigure "$@"`, "sh",
				"--dir", dir, "resume", "--resume-file", "-", "node01")
			cmd.Dir, cmd.Env = dir, append(append(os.Environ(), secrets...), "GOTRACEBACK=crash")
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			stdin, err := cmd.StdinPipe()
			ok(t, err)
			defer stdin.Close()
			ok(t, cmd.Start())
			// More than a pipe holds, so the call is reading by now.
			_, err = stdin.Write(bytes.Repeat([]byte(" "), 1<<20))
			ok(t, err)
			ok(t, cmd.Process.Signal(signal))
			if err := cmd.Wait(); err == nil || !strings.Contains(said.String(), "goroutine") {
				t.Fatalf("it did not crash: %v\n%s", err, said.String())
			}
			for _, secret := range secrets {
				_, value, _ := strings.Cut(secret, "=")
				if strings.Contains(said.String(), value) {
					t.Errorf("%s is in the traceback:\n%s", secret, said.String())
				}
			}
			left, err := filepath.Glob(filepath.Join(dir, "*core*"))
			if err != nil || len(left) > 0 {
				t.Errorf("it left %v, error %v", left, err)
			}
		})
	}
}
