package slurm

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// In the form of Slurm 22.05.
const config = `Configuration data as of 2026-11-22T07:02:09
AccountingStorageBackupHost = (null)
PrivateData             = cloud
ResumeTimeout           = 900 sec
SlurmctldParameters     = cloud_reg_addrs,idle_on_node_suspend,power_save_interval=2
SLURM_VERSION           = 22.05.8
TreeWidth               = 65533

Cgroup Support Configuration:
TreeWidth               = of something else

Slurmctld(primary) at eiffel-control is UP
`

func TestSettingsAreReadByLine(t *testing.T) {
	want := Settings{
		Clock: time.Date(2026, 11, 22, 7, 2, 9, 0, time.UTC),
		Values: map[string]string{
			"AccountingStorageBackupHost": "(null)",
			"PrivateData":                 "cloud",
			"ResumeTimeout":               "900 sec",
			"SlurmctldParameters":         "cloud_reg_addrs,idle_on_node_suspend,power_save_interval=2",
			"SLURM_VERSION":               "22.05.8",
			"TreeWidth":                   "65533",
		},
	}
	if diff := cmp.Diff(want, parseSettings([]byte(config))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
