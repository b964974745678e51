package ansible

import (
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
	want := "/etc/slurm/health/run 0755, /etc/slurm/health/declared 0644, /etc/slurm/health/check-disks 0755, " +
		"/etc/slurm/health/check-my.own 0755"
	if got := strings.Join(paths, ", "); got != want {
		t.Errorf("the files are %s", got)
	}
	for _, want := range []string{`HEALTH_NODE=\'node01\'`, `HEALTH_CHECKS=\'disks my.own\'`, `HEALTH_LIMIT=\'60\'`,
		`HEALTH_GRES=\'gpu:a100:4\'`, `'7500'`} {
		if !strings.Contains(h.Health[1].Base64, want) {
			t.Errorf("the settings are %s, without %s", h.Health[1].Base64, want)
		}
	}
}
