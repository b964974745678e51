package attach

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Write writes the plan for people.
func (p Plan) Write(out io.Writer) error {
	var b strings.Builder
	configless := ""
	if p.Configless {
		configless = ", configless"
	}
	fmt.Fprintf(&b, "Control node %s: slurmctld %s as %s, cluster %s%s\n", p.Host, p.Slurm, p.SlurmUser, p.Cluster,
		configless)
	fmt.Fprintf(&b, "The site has %s and %s in %s.\n\n", text.Count(p.Nodes, "node"),
		text.Count(p.Partitions, "partition"), strings.Join(p.Files, ", "))
	if len(p.Writes) == 0 {
		p.writeDetach(&b)
	}
	for _, w := range p.Writes {
		if w.Line {
			fmt.Fprintf(&b, "In %s, one line, the first:\n", w.Path)
		} else {
			fmt.Fprintf(&b, "The file %s:\n", w.Path)
		}
		for line := range strings.Lines(w.Text) {
			fmt.Fprintf(&b, "    %s", line)
		}
	}
	if len(p.Writes) > 0 {
		fmt.Fprintf(&b, "The folder %s: programs for slurmctld, and the key of SlurmUser\n\n",
			path.Join(path.Dir(p.Writes[0].Path), folder))
	}
	if len(p.Changes) == 0 {
		fmt.Fprintln(&b, "slurmctld would read the same as now.")
	} else {
		fmt.Fprintln(&b, "Lines that slurmctld would read in addition (+), and no longer (-):")
		for _, c := range p.Changes {
			fmt.Fprintf(&b, "    %s\n", c)
		}
		if p.Restart {
			fmt.Fprintln(&b, "slurmctld must be restarted for that: before 23.11, `scontrol reconfigure` adds no nodes.")
		} else {
			fmt.Fprintln(&b, "`scontrol reconfigure` is enough for that.")
		}
	}
	b.WriteString("\n")
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	return p.Report.Write(out)
}

// writeDetach writes what a plan to detach removes.
func (p Plan) writeDetach(b *strings.Builder) {
	if p.Attached {
		fmt.Fprintf(b, "The first line of slurm.conf is removed: %s", Line)
	}
	fmt.Fprintf(b, "%s, the folder %s and the keys are removed.\n\n", File, folder)
}
