package slurm

import (
	"errors"
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

// The key for Slurm may read them, but no other part of scontrol's output.
func TestSettingsAreAskedFor(t *testing.T) {
	script := "[ \"$*\" = 'show config' ] || exit 1\ncat <<'END'\n" + config + "END\n"
	settings, err := newTools(t, map[string]string{"scontrol": script}).client(false).Settings(t.Context())
	if err != nil || settings.Values["SLURM_VERSION"] != "22.05.8" {
		t.Errorf("%v, error %v", settings, err)
	}
	for name, script := range map[string]string{"slurmctld does not answer": unreachably, "there is nothing": "echo"} {
		_, err := newTools(t, map[string]string{"scontrol": script}).client(false).Settings(t.Context())
		if !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

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

func TestExceptionsChangeWhileSlurmctldRunsSince2302(t *testing.T) {
	for version, want := range map[string]bool{
		"22.05.8": false, "22.05.11": false, "23.02.0": true, "23.11.1": true, "24.11.5": true, "26.05.0-rc1": true, "": false,
	} {
		s := Settings{Values: map[string]string{"SLURM_VERSION": version, "SuspendExcNodes": "c[1-2]:1,ctl"}}
		if nodes, changes := s.Exceptions(); nodes != "c[1-2]:1,ctl" || changes != want {
			t.Errorf("%s has %s (%t)", version, nodes, changes)
		}
	}
	if nodes, _ := (Settings{Values: map[string]string{"SuspendExcNodes": "(null)"}}).Exceptions(); nodes != "" {
		t.Errorf("none are %q", nodes)
	}
}
