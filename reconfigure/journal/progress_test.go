package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// TestHoldKeepsWhatARequestWaitsFor also says it anew, and for good when nothing is left of it.
func TestHoldKeepsWhatARequestWaitsFor(t *testing.T) {
	j, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	r, err := j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Suspend, Nodes: nodeset.Of("n1")})
	if err != nil {
		t.Fatal(err)
	}
	for _, waits := range [][]reconfigure.Deferral{
		{{Request: r.ID, Reason: "the cloud is away"}},
		{{Request: r.ID, Reason: "the cloud is away"}, {Node: "n1", Request: r.ID, Reason: "its jobs have to end first"}},
		{{Node: "n1", Request: r.ID, Reason: "tried once more", Tries: 2, Class: reconfigure.ClassSSH}},
		nil,
	} {
		if err := j.Hold(t.Context(), reconfigure.Outcome{Request: r.ID, Waiting: waits}); err != nil {
			t.Fatal(err)
		}
		pending, err := j.Pending(t.Context())
		if err != nil || len(pending) != 1 || !pending[0].Held {
			t.Fatalf("pending %+v, error %v", pending, err)
		}
		if diff := cmp.Diff(waits, pending[0].Deferred, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("waits (-want +got):\n%s", diff)
		}
	}
}

func TestWhatTheFirstVersionHeldIsReadStill(t *testing.T) {
	var r reconfigure.Request
	if err := decodeHold(&r, `[{"node":"n1","status":"done"}]`); err != nil || !r.Held || len(r.Verdicts) != 1 || r.Verdicts[0].Node != "n1" {
		t.Errorf("request %+v, error %v", r, err)
	}
	if err := decodeHold(&r, `{"verdicts":`); err == nil {
		t.Error("what is no JSON was taken")
	}
}
