package ansible

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

func TestOnlyAGroupWithHealthChecksHasTheirFiles(t *testing.T) {
	c := testCluster()
	c.Groups[0].HealthChecks, c.Groups[0].HealthLimit = []string{"disks", "my.own"}, time.Minute
	c.Groups[0].Slurm, c.Groups[0].Gres = map[string]string{"realmemory": "7500"}, "gpu:a100:4"
	hosts := newInventory(c, testInstances(), nil).hosts
	for _, node := range []string{"ctl", "big1"} {
		if h := hosts[node]; h.Health != nil || h.HealthProgram != "" {
			t.Errorf("%s: %+v", node, h)
		}
	}
	h := hosts["node01"]
	if h.HealthProgram != "/etc/slurm/health/run" {
		t.Errorf("the program is %q", h.HealthProgram)
	}
	var paths []string
	for _, f := range h.Health {
		paths = append(paths, f.Path+" "+f.Mode)
	}
	want := "/etc/slurm/health/run 0755, /etc/slurm/health/declared 0644, /etc/slurm/health/memory 0644, " +
		"/etc/slurm/health/check-disks 0755, /etc/slurm/health/check-my.own 0755"
	if got := strings.Join(paths, ", "); got != want {
		t.Errorf("the files are %s", got)
	}
	settings, err := base64.StdEncoding.DecodeString(h.Health[1].Base64)
	want = "HEALTH_NODE='node01'\nHEALTH_CHECKS='disks my.own'\nHEALTH_LIMIT='60'\nHEALTH_GRES='gpu:a100:4'\n"
	if string(settings) != want || err != nil {
		t.Errorf("the settings are %q, error %v", settings, err)
	}
	memory, err := base64.StdEncoding.DecodeString(h.Health[2].Base64)
	if string(memory) != "7500" || err != nil {
		t.Errorf("the memory is %q, error %v", memory, err)
	}
	c.Groups[0].Slurm = nil
	h = newInventory(c, testInstances(), nil).hosts["node01"]
	if !strings.Contains(h.Health[2].Base64, "slurm_conf_hardware") {
		t.Errorf("the memory of a group that does not declare it is %q", h.Health[2].Base64)
	}
}
