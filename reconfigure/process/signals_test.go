package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCleanSignalsUnblocksTheSignalsThatSlurmctldBlocks(t *testing.T) {
	for _, variable := range []string{"none", "stale"} {
		t.Run(variable, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "report")
			cmd := play(t, "slurmctld", file, variable)
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf(`args ["tool"]
env ["%s=tool" "SLURM_CONF=/etc/slurm/slurm.conf"]
pid %d
fd 0 /dev/null
fd 1 /dev/null
fd 2 /dev/null
SigBlk:	0000000000000000
`, role, cmd.Process.Pid)
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCleanSignalsExecutesTheProgramOnlyOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report")
	if err := play(t, "slurmctld", file, "marked").Run(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(got), "still blocked") {
		t.Errorf("report %q, error %v", got, err)
	}
}
