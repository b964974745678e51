package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestFormerFormsOfProgressAreRead(t *testing.T) {
	verdicts := []reconfigure.Verdict{{Node: "n1", Status: reconfigure.StatusDone}}
	for text, want := range map[string]reconfigure.Request{
		`[{"node":"n1","status":"done"}]`:              {Verdicts: verdicts},
		`{"verdicts":[{"node":"n1","status":"done"}]}`: {Verdicts: verdicts},
		`{"verdicts":[],"waits":[{"request":7,"reason":"no cloud"}]}`: {
			Deferred: []reconfigure.Deferral{{Request: 7, Kind: reconfigure.CannotPlan, Reason: "no cloud"}},
		},
		`{"verdicts":[{"node":"n1","status":"done"}],"waits":[
			{"node":"n2","request":7,"reason":"its jobs have to end first"},
			{"node":"n3","request":7,"reason":"tried once more","tries":2,"class":"ssh"},
			{"node":"n4","request":7,"reason":"no answer","veiled":true}]}`: {
			Verdicts: verdicts,
			Deferred: []reconfigure.Deferral{
				{Node: "n2", Request: 7, Kind: reconfigure.WaitsForJobs, Reason: "its jobs have to end first"},
				{Node: "n4", Request: 7, Kind: reconfigure.SlurmUnreachable, Reason: "no answer"},
			},
		},
		`{"verdicts":[],"deferred":[{"node":"n2","request":7,"kind":"cloud-unreachable","reason":"no answer"}]}`: {
			Deferred: []reconfigure.Deferral{
				{Node: "n2", Request: 7, Kind: reconfigure.CloudUnreachable, Reason: "no answer"},
			},
		},
	} {
		var got reconfigure.Request
		if err := decodeProgress(&got, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
	if err := decodeProgress(new(reconfigure.Request), `{"verdicts":`); err == nil {
		t.Error("invalid JSON was accepted")
	}
}
