package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// LastFailures returns the evidence of each node's last failure. A node fails at most once in a plan.
func LastFailures(kept []reconfigure.Evidence) []reconfigure.Evidence {
	last := map[string]int64{}
	for _, e := range kept {
		last[e.Node] = e.Plan
	}
	return slices.DeleteFunc(kept, func(e reconfigure.Evidence) bool { return e.Plan != last[e.Node] })
}

// WriteEvidence writes evidence for people, and lists the nodes without any.
func WriteEvidence(w io.Writer, nodes nodeset.NodeSet, kept []reconfigure.Evidence) error {
	var b strings.Builder
	for _, e := range kept {
		writeEvidence(&b, e)
		nodes = nodes.Difference(nodeset.Of(e.Node))
	}
	switch {
	case !nodes.Empty():
		fmt.Fprintf(&b, "nothing is kept for %s\n", nodes)
	case len(kept) == 0:
		b.WriteString("nothing is kept\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeEvidence writes one piece of evidence: a heading, and its lines indented.
func writeEvidence(b *strings.Builder, e reconfigure.Evidence) {
	what := map[reconfigure.Witness]string{
		reconfigure.WitnessConsole: "the end of its console log",
		reconfigure.WitnessTask:    "what the task printed",
	}[e.Kind]
	fmt.Fprintf(b, "%s failed at %s, %s, in plan %d: %s\n",
		e.Node, e.Phase, e.Time.UTC().Format(time.RFC3339), e.Plan, cmp.Or(what, string(e.Kind)))
	for line := range strings.Lines(e.Text) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")
		b.WriteString(strings.TrimRight("    "+text.Printable(line), " ") + "\n")
	}
}
