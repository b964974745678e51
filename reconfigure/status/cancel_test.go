package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestWhatCannotBeTakenBackIsExplained(t *testing.T) {
	jobs := []reconfigure.Deferral{{Node: "node02", Request: 7, Reason: "its jobs have to end first"}}
	cloud := []reconfigure.Deferral{{Request: 7, Reason: "find cloud\n\"x\""}}
	again := []reconfigure.Deferral{{Node: "node02", Request: 7, Reason: "tried once more on a fresh instance: no-ssh: deaf", Tries: 1}}
	silent := []reconfigure.Deferral{{Node: "node02", Request: 7, Reason: "Slurm does not answer", Veiled: true}}
	var text strings.Builder
	for _, p := range []pendingRequest{
		{State: standsWaiting, Request: reconfigure.Request{Mode: reconfigure.Deploy}},
		{State: standsAtWork, Request: reconfigure.Request{Mode: reconfigure.Resume}},
		{State: standsAtWork, Request: reconfigure.Request{Mode: reconfigure.Suspend}},
		{State: standsCutShort, Request: reconfigure.Request{Mode: reconfigure.Destroy}},
		{State: standsHeld, Request: reconfigure.Request{Mode: reconfigure.Update, Waits: jobs}},
		{State: standsHeld, Request: reconfigure.Request{Mode: reconfigure.Shrink, Waits: jobs}},
		{State: standsAgain, Request: reconfigure.Request{Mode: reconfigure.Resume, Waits: again}},
		{State: standsPutOff, Request: reconfigure.Request{Mode: reconfigure.Suspend, Waits: cloud}},
		{State: standsPutOff, Request: reconfigure.Request{Mode: reconfigure.Suspend, Waits: silent}},
	} {
		p.ID, p.Nodes = 7, nodeset.Of("node02", "node03")
		fmt.Fprintf(&text, "%s, %s: it %s; %s\n", p.Mode, p.State, p.is(), p.remedy())
	}
	golden(t, "begun.txt", text.String())
}
