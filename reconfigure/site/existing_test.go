package site_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// TestOnControlNode has a program in the place of ssh, which gives the remote command to a shell, as sshd does.
func TestOnControlNode(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" >" + dir + "/args\nfor last; do :; done\nexec sh -c \"$last\"\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	hostile := filepath.Join(dir, "it's $(touch x) `y` \"z\".conf")
	if err := os.WriteFile(hostile, []byte("KillWait=30\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var s site.Site
	s.Cluster.PrivateKeyFile = "/keys/id"
	s.Cluster.Control.Existing = &reconfigure.ExistingControl{
		Host: "head", User: "admin", SlurmConf: "/opt/slurm/etc/slurm.conf"}
	if got, err := s.OnControlNode(t.Context(), "cat", hostile); err != nil || string(got) != "KillWait=30\n" {
		t.Errorf("%q, %v", got, err)
	}
	got, err := s.OnControlNode(t.Context(), "sh", "-c", `echo "$SLURM_CONF $PATH"`)
	if err != nil || !strings.HasPrefix(string(got), "/opt/slurm/etc/slurm.conf ") ||
		!strings.Contains(string(got), ":/opt/slurm/bin:") {
		t.Errorf("%q, %v", got, err)
	}
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil || !strings.Contains(string(args), "-i\n/keys/id\n-l\nadmin\n--\nhead\n") {
		t.Errorf("%q, %v", args, err)
	}
	_, err = s.OnControlNode(t.Context(), "cat", "/none")
	if err == nil || !strings.Contains(err.Error(), "cat on head") || !strings.Contains(err.Error(), "No such file") {
		t.Errorf("a missing file: %v", err)
	}
}
