package ansible

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// healthFiles returns the files of a node's health checks, the program on the node that runs them, and the largest
// number of seconds that it takes; none if its group declares no check. A script of the site has precedence over a
// shipped one with its name.
func healthFiles(c reconfigure.Cluster, node string) (files []siteFile, program string, seconds int) {
	g, ok := c.GroupOf(node)
	if !ok || len(g.HealthChecks) == 0 {
		return nil, "", 0
	}
	const encoded = ", rstrip=false) | b64encode }}"
	at := func(name string) string { return reconfigure.HealthFolder + "/" + name }
	files = []siteFile{
		{at("run"), "0755", "{{ lookup('ansible.builtin.file', playbook_dir ~ '/health/run'" + encoded},
		{at("declared"), "0644", base64.StdEncoding.EncodeToString([]byte(healthSettings(g, node)))},
		{at("memory"), "0644", healthMemory(g)},
	}
	for _, name := range g.HealthChecks {
		files = append(files, siteFile{at("check-" + name), "0755",
			"{{ lookup('ansible.builtin.file', lookup('ansible.builtin.first_found', [site_folder | default(playbook_dir) ~ " +
				"'/files/health/" + name + "', playbook_dir ~ '/health/" + name + "'])" + encoded})
	}
	return files, at("run"), int(g.HealthTime() / time.Second)
}

// healthSettings returns the file that ansible/health/run reads. Its values have no quotes.
func healthSettings(g reconfigure.NodeGroup, node string) string {
	return fmt.Sprintf("HEALTH_NODE='%s'\nHEALTH_CHECKS='%s'\nHEALTH_LIMIT='%d'\nHEALTH_GRES='%s'\n",
		node, strings.Join(g.HealthChecks, " "), int(g.HealthLimit/time.Second), g.Gres)
}

// healthMemory returns RealMemory of a group in slurm.conf, in MiB and base64: the declared one, or else a template of
// that of the flavor; empty if it is unknown.
func healthMemory(g reconfigure.NodeGroup) string {
	if memory := g.Slurm["realmemory"]; memory != "" {
		return base64.StdEncoding.EncodeToString([]byte(memory))
	}
	return "{{ ((slurm_conf_hardware | default({}))['" + g.Name + "'] | default({})).RealMemory | default('') | string | " +
		"b64encode }}"
}
