// Package attach decides what reconfigure writes on a control node that the site runs, and finds what speaks against
// it. It is pure.
//
// The site keeps its slurm.conf. It gets one line, the first, which includes eiffel.conf, a file beside it. The line is
// the first so that the site's lines NodeName=DEFAULT do not change reconfigure's nodes, that the site's settings take
// precedence, and that the rest of the file stays as it is, byte for byte. The path is relative, since a configless
// slurmctld sends its nodes only files without a folder in their Include lines.
//
// eiffel.conf has only what the site's files lack. There is no SuspendTime for all nodes in it: slurmctld would power
// down the site's own nodes. The partitions have it.
package attach

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/check"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
)

const (
	// File is the name of the file that slurm.conf includes. It is in the same folder.
	File = "eiffel.conf"
	// Line is the line in slurm.conf.
	Line = "Include " + File + "\n"
	// folder is the name of the folder of scripts and keys beside slurm.conf.
	folder = "eiffel"
)

// With returns the text of slurm.conf with the line. It may be repeated.
func With(slurmConf string) string { return Line + Without(slurmConf) }

// Without returns the text of slurm.conf without the line.
func Without(slurmConf string) string { return strings.TrimPrefix(slurmConf, Line) }

// Facts is what is known of the control node.
type Facts struct {
	Cluster reconfigure.Cluster // Control.Existing is set
	// Hardware has the hardware of the groups' flavors, by the group's name; a group is missing if it is unknown.
	Hardware map[string]reconfigure.Hardware
	// Firewall is that of the cloud's root module: only declared networks reach the nodes.
	Firewall bool
	Files    map[string]string // slurm.conf and the files that it includes, by path
	Settings map[string]string // slurmctld's settings, as `scontrol show config` prints them
	// Nodes and Partitions are those that slurmctld knows.
	Nodes      nodeset.NodeSet
	Partitions []string
	Jobs       []Job // those that run or wait
}

// Job is a job that runs or waits.
type Job struct {
	ID         string
	Partitions []string
	Nodes      nodeset.NodeSet // none if it waits
}

// Plan is what an attachment would write and do.
type Plan struct {
	Host       string   `json:"host"`
	Slurm      string   `json:"slurm"` // the version
	SlurmUser  string   `json:"slurm_user"`
	Cluster    string   `json:"cluster"` // Slurm's name of it
	Configless bool     `json:"configless"`
	Files      []string `json:"files"` // the site's, that were read
	Nodes      int      `json:"nodes"` // of the site
	Partitions int      `json:"partitions"`

	// Attached reports whether slurm.conf has the line already.
	Attached bool     `json:"attached"`
	Writes   []Write  `json:"writes"`
	Changes  []string `json:"changes"` // the lines that slurmctld would read (+), and would no longer read (-)
	Restart  bool     `json:"restart"` // slurmctld must be restarted; otherwise `scontrol reconfigure` is enough
	// Report has the findings. With an error among them nothing may be written.
	Report check.Report `json:"report"`

	// Own is slurm.conf without the line, and Dangers has what may end jobs: to check again before the change.
	Own     string               `json:"-"`
	Dangers []reconfigure.Danger `json:"-"`
}

// Text returns what is written to eiffel.conf; empty for a plan to detach.
func (p Plan) Text() string {
	for _, w := range p.Writes {
		if !w.Line {
			return w.Text
		}
	}
	return ""
}

// Write is a file that is written.
type Write struct {
	Path string `json:"path"`
	Text string `json:"text"`
	Line bool   `json:"line"` // the text is a line that is added, the first
}

// Compute returns the plan. The error names what in slurm.conf slurmctld could not read.
func Compute(f Facts) (Plan, error) {
	control := f.Cluster.Control.Existing
	now, err := slurmconf.Load(control.SlurmConf, f.read)
	if err != nil {
		return Plan{}, err
	}
	ours := path.Join(path.Dir(control.SlurmConf), File)
	// The lines of the site keep the numbers that they have in the file now.
	own := f.Files[control.SlurmConf]
	attached := strings.HasPrefix(own, Line)
	if attached {
		own = "\n" + Without(own)
	}
	site, err := slurmconf.Load(control.SlurmConf, f.with(control.SlurmConf, own))
	if err != nil {
		return Plan{}, err
	}
	w := writer{Facts: f, site: site, attached: attached, dir: path.Dir(control.SlurmConf),
		release: release(f.Settings["SLURM_VERSION"])}
	text := w.file()
	f.Files = merged(f.Files, ours, text)
	coming, err := slurmconf.Load(control.SlurmConf, f.with(control.SlurmConf, With(f.Files[control.SlurmConf])))
	if err != nil {
		return Plan{}, err
	}
	w.checkSite()
	w.checkRunning(now)
	w.checkPartitions(coming)
	dangers := now.Dangers(coming)
	w.checkJobs(dangers)
	files := site.Files()
	configless := hasWord(value(site, parameters), "enable_configless")
	return Plan{
		Host: control.Host, Slurm: f.Settings["SLURM_VERSION"], SlurmUser: f.Settings["SlurmUser"],
		Cluster: f.Settings["ClusterName"], Configless: configless,
		Files: files, Nodes: site.Nodes().Len(), Partitions: len(site.Partitions()),
		Writes:  []Write{{Path: control.SlurmConf, Text: Line, Line: true}, {Path: ours, Text: text}},
		Changes: now.Changes(coming),
		// Since 23.11 a reconfiguration starts slurmctld anew in the same unit; before, new nodes need a restart.
		Restart: Restarts(f.Settings["SLURM_VERSION"]),
		Report:  w.report(),

		Attached: attached, Own: Without(f.Files[control.SlurmConf]), Dangers: dangers,
	}, nil
}

// Detached returns the plan to detach: slurm.conf without the line, and no eiffel.conf. The findings are the nodes of the
// cluster that have an instance, and the jobs that would end.
func Detached(f Facts, instances nodeset.NodeSet) (Plan, error) {
	control := f.Cluster.Control.Existing
	now, err := slurmconf.Load(control.SlurmConf, f.read)
	if err != nil {
		return Plan{}, err
	}
	text := f.Files[control.SlurmConf]
	coming, err := slurmconf.Load(control.SlurmConf, f.with(control.SlurmConf, Without(text)))
	if err != nil {
		return Plan{}, err
	}
	w := writer{Facts: f, release: release(f.Settings["SLURM_VERSION"])}
	if !instances.Empty() {
		w.find(check.Error, fmt.Sprintf("%s: there are instances", instances), "Slurm would forget them, and nothing would remove their instances",
			fmt.Sprintf("scontrol update nodename=%s state=power_down, and wait; persistent nodes: reconfigure destroy",
				instances))
	}
	dangers := now.Dangers(coming)
	w.checkJobs(dangers)
	return Plan{
		Host: control.Host, Slurm: f.Settings["SLURM_VERSION"], SlurmUser: f.Settings["SlurmUser"],
		Cluster: f.Settings["ClusterName"], Files: coming.Files(), Nodes: coming.Nodes().Len(),
		Partitions: len(coming.Partitions()), Attached: strings.HasPrefix(text, Line), Changes: now.Changes(coming),
		Restart: Restarts(f.Settings["SLURM_VERSION"]), Report: w.report(), Own: Without(text), Dangers: dangers,
	}, nil
}

func (f Facts) read(name string) (string, error) {
	text, there := f.Files[name]
	if !there {
		return "", &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return text, nil
}

// with is read with another text of one file.
func (f Facts) with(name, text string) func(string) (string, error) {
	other := Facts{Files: merged(f.Files, name, text)}
	return other.read
}

func merged(files map[string]string, name, text string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, files)
	all[name] = text
	return all
}

// writer makes eiffel.conf, and collects the findings.
type writer struct {
	Facts
	site     slurmconf.Conf // without our file
	attached bool           // slurm.conf has the line already
	dir      string         // of slurm.conf
	release  *version.Version
	found    []check.Finding
	text     strings.Builder
}

func release(text string) *version.Version {
	v, err := version.NewVersion(text)
	if err != nil {
		return nil
	}
	return v
}

// Restarts reports whether slurmctld of a version must be restarted for other nodes; otherwise `scontrol reconfigure` is
// enough.
func Restarts(slurm string) bool { return !(&writer{release: release(slurm)}).since("23.11") }

// since reports whether Slurm is of a release or a later one. An unknown release is an old one.
func (w *writer) since(first string) bool {
	return w.release != nil && !w.release.Core().LessThan(version.Must(version.NewVersion(first)))
}

func (w *writer) find(severity check.Severity, what, why, change string) {
	w.found = append(w.found, check.Finding{Check: "attach", Severity: severity, What: what, Why: why, Change: change})
}

func (w *writer) report() check.Report {
	check.Sort(w.found)
	return check.Report{Cluster: w.Cluster.Name, Findings: w.found}
}

// file returns the text of eiffel.conf.
func (w *writer) file() string {
	fmt.Fprintf(&w.text, "# reconfigure writes this file from the declaration of cluster %s. %s includes it.\n",
		w.Cluster.Name, w.Cluster.Control.Existing.SlurmConf)
	w.settings()
	for _, g := range w.Cluster.Groups {
		w.group(g)
	}
	for _, p := range w.Cluster.Partitions {
		w.partition(p)
	}
	return w.text.String()
}

// line writes KEY=VALUE pairs in one line.
func (w *writer) line(pairs ...string) { fmt.Fprintln(&w.text, strings.Join(pairs, " ")) }
