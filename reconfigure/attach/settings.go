package attach

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure/check"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
)

const parameters = "SlurmctldParameters"

// setting is a setting that reconfigure needs.
type setting struct {
	name, value string
	wrong       func(site string) bool
	severity    check.Severity // of a wrong value of the site
	why         string
	change      string // empty: write the value
}

// settings writes the settings that the site's files lack, and finds those of the site that are wrong.
func (w *writer) settings() {
	for _, s := range append(w.programs(), w.others()...) {
		is, at, there := w.site.Setting(s.name)
		if !there {
			w.line(s.name + "=" + s.value)
			continue
		}
		if s.wrong(is) {
			change := s.change
			if change == "" {
				change = fmt.Sprintf("%s=%s in %s", s.name, s.value, at)
			}
			w.find(s.severity, fmt.Sprintf("%s: %s=%s", at, s.name, is), s.why, change)
		}
	}
	w.words(parameters, w.parameters(), map[string]string{
		"idle_on_node_suspend": "a node that failed stays DOWN after its instance is removed",
		"cloud_reg_addrs":      "slurmctld does not learn the addresses of new nodes",
		fromController:         "the nodes do not have the RebootProgram of reconfigure",
	})
	w.words("GresTypes", w.gresTypes(), nil)
	if !w.since("23.02") {
		w.words("PrivateData", []string{"cloud"}, map[string]string{"cloud": "scontrol does not show powered-down nodes"})
	}
	w.exceptions()
}

func (w *writer) programs() []setting {
	var all []setting
	for _, p := range []struct {
		name, script string
		severity     check.Severity
		why          string
	}{
		{"ResumeProgram", "resume.sh", check.Error,
			"Slurm has one program for all nodes: it would not ask reconfigure for nodes"},
		{"SuspendProgram", "suspend.sh", check.Error, "Slurm has one program for all nodes: no instance would be removed"},
		{"ResumeFailProgram", "resume_fail.sh", check.Error,
			"Slurm has one program for all nodes: the instance of a node that does not register in time would stay"},
		{"RebootProgram", "reboot.sh", check.Warning, "`scontrol reboot` would not make reconfigure's nodes anew"},
	} {
		script := path.Join(w.dir, folder, "bin", p.script)
		all = append(all, setting{name: p.name, value: script, severity: p.severity, why: p.why,
			wrong:  func(is string) bool { return is != script },
			change: "remove the line if no node of the site needs it"})
	}
	return all
}

func (w *writer) others() []setting {
	nodes := w.site.Nodes().Union(w.Cluster.Nodes()).Len()
	atLeast := func(n int) func(string) bool {
		return func(is string) bool { i, err := strconv.Atoi(is); return err != nil || i < n }
	}
	return []setting{
		{name: "ReturnToService", value: "2", severity: check.Error, wrong: func(is string) bool { return is != "2" },
			why: "a node that was thought lost, or registers late, stays DOWN forever"},
		{name: "TreeWidth", value: "65533", severity: check.Warning, wrong: atLeast(nodes),
			why: "nodes forward messages to nodes whose addresses they do not know"},
		{name: "ResumeRate", value: strconv.Itoa(w.Cluster.Slurm.ResumeRate), severity: check.Warning,
			wrong: func(is string) bool { return is != "0" },
			why:   "Slurm splits the nodes of a large job into calls a minute apart; reconfigure already batches requests"},
		{name: "SuspendRate", value: strconv.Itoa(w.Cluster.Slurm.SuspendRate), severity: check.Note,
			wrong: func(string) bool { return false }},
	}
}

func (w *writer) parameters() []string {
	words := []string{"idle_on_node_suspend"}
	if !w.since("23.11") { // later releases always do that, and log the word as an error
		words = append(words, "cloud_reg_addrs")
	}
	if w.Cluster.DNS {
		words = append(words, "cloud_dns")
	}
	if w.Cluster.Control.Existing.ConfiguredBySite() &&
		!slices.Contains(w.Cluster.Slurm.Parameters, fromController) {
		words = append(words, fromController)
	}
	return append(words, w.Cluster.Slurm.Parameters...)
}

// fromController has slurmctld run RebootProgram: the nodes do not have it if the playbooks do not configure them.
const fromController = "reboot_from_controller"

func (w *writer) gresTypes() []string {
	var types []string
	for _, g := range w.Cluster.Groups {
		for item := range strings.SplitSeq(g.Gres, ",") {
			if name, _, _ := strings.Cut(item, ":"); name != "" && !slices.Contains(types, name) {
				types = append(types, name)
			}
		}
	}
	return types
}

// words writes a list, or finds the words that the list of the site lacks.
func (w *writer) words(name string, wanted []string, why map[string]string) {
	if len(wanted) == 0 {
		return
	}
	is, at, there := w.site.Setting(name)
	if !there {
		w.line(name + "=" + strings.Join(wanted, ","))
		return
	}
	lacking := slices.DeleteFunc(slices.Clone(wanted), func(word string) bool { return hasWord(is, word) })
	if len(lacking) == 0 {
		return
	}
	reason := "the declaration asks for it"
	for _, word := range lacking {
		if known, ok := why[word]; ok {
			reason = known
			break
		}
	}
	list := strings.Join(append([]string{is}, lacking...), ",")
	w.find(check.Error, fmt.Sprintf("%s: %s lacks %s", at, name, strings.Join(lacking, ",")), reason,
		fmt.Sprintf("%s=%s in %s", name, list, at))
}

// exceptions keeps slurmctld from powering down the persistent nodes.
func (w *writer) exceptions() {
	const name = "SuspendExcNodes"
	persistent := w.Cluster.Persistent()
	if persistent.Empty() {
		return
	}
	is, at, there := w.site.Setting(name)
	if !there {
		w.line(name + "=" + persistent.String())
		return
	}
	if excepted := w.excepted(); !persistent.Difference(excepted).Empty() {
		w.find(check.Error, fmt.Sprintf("%s: %s lacks %s", at, name, persistent.Difference(excepted)),
			"slurmctld would power down persistent nodes", fmt.Sprintf("%s=%s,%s in %s", name, is, persistent, at))
	}
}

// excepted returns the nodes that slurmctld never powers down for the site's SuspendExcNodes and SuspendExcParts. A
// list that cannot be read, with numbers for example, excepts nothing.
func (w *writer) excepted() nodeset.NodeSet {
	nodes, _ := nodeset.Parse(value(w.site, "SuspendExcNodes"))
	parts := strings.Split(value(w.site, "SuspendExcParts"), ",")
	for _, p := range w.site.Sections("PartitionName") {
		if slices.Contains(parts, p.Settings["partitionname"]) {
			nodes = nodes.Union(members(w.site, p))
		}
	}
	return nodes
}

func value(c slurmconf.Conf, name string) string {
	is, _, _ := c.Setting(name)
	return is
}

// hasWord reports whether a comma-separated list has a word, with or without a value.
func hasWord(list, word string) bool {
	word, _, _ = strings.Cut(word, "=")
	for part := range strings.SplitSeq(list, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(part), "=")
		if strings.EqualFold(name, word) {
			return true
		}
	}
	return false
}
