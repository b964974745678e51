package batch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
)

// forgiving is the product's pipeline where a node is tried so often again.
func forgiving(w *enginetest.World, retries int) batch.Pipeline {
	return batch.Pipeline{Open: func(context.Context) (reconfigure.Cluster, batch.Engine, error) {
		c := declared()
		c.Slurm.ResumeTimeout, c.Settings.Retries = 15*time.Minute, retries
		return c, engine.New(c, w.Deps()), nil
	}}
}

const tried = "tried once more on a fresh instance: no-ssh: no SSH"

// resumed has a resume of p2 to p4 be carried out, of which p2 never answers. It has been tried so often before.
func resumed(t *testing.T, retries, tries int) *memory {
	t.Helper()
	w := enginetest.NewWorld(declared())
	w.Have("ctl", "p1")
	w.PowersUp("p2", "p3", "p4")
	w.Order(enginetest.NoSSH, "p2")
	time.Sleep(time.Second)
	log := &memory{}
	r := request(1, reconfigure.Resume, "p2", "p3", "p4")
	r.Submitted = time.Now()
	if tries > 0 {
		r.Held = true
		r.Waits = []reconfigure.Wait{{Node: "p2", Request: 1, Reason: tried, Tries: tries, Class: reconfigure.ClassSSH}}
		r.Settled = []reconfigure.Verdict{{Node: "p3", Status: reconfigure.StatusDone}, {Node: "p4", Status: reconfigure.StatusFailed}}
	}
	log.submit(r)
	// It does not stay for what is held: a second try must begin at once.
	if err := batch.WorkOnce(t.Context(), log, forgiving(w, retries)); err != nil {
		t.Fatal(err)
	}
	if len(log.finished) != 1 {
		t.Fatalf("the request is left: %+v", log.requests)
	}
	return log
}

func TestNodeIsTriedAgainAsOftenAsItMayAndTheOthersAreNot(t *testing.T) {
	for retries, batches := range map[int]int64{0: 1, 1: 2, 3: 4} {
		synctest.Test(t, func(t *testing.T) {
			log := resumed(t, retries, 0)
			if log.batches != batches {
				t.Errorf("with %d retries there were %d batches", retries, log.batches)
			}
			want := map[string]reconfigure.Status{"p2": reconfigure.StatusFailed, "p3": reconfigure.StatusDone, "p4": reconfigure.StatusDone}
			wantStatus(t, want, log.finished[0])
		})
	}
}

// TestTriesAreCountedBeyondADeath takes up what another worker left. What is settled stays as it is.
func TestTriesAreCountedBeyondADeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := resumed(t, 2, 2)
		if log.batches != 1 {
			t.Errorf("there were %d batches", log.batches)
		}
		want := map[string]reconfigure.Status{"p2": reconfigure.StatusFailed, "p3": reconfigure.StatusDone, "p4": reconfigure.StatusFailed}
		wantStatus(t, want, log.finished[0])
	})
}

func wantStatus(t *testing.T, want map[string]reconfigure.Status, o reconfigure.Outcome) {
	t.Helper()
	got := map[string]reconfigure.Status{}
	for _, v := range o.Verdicts {
		got[v.Node] = v.Status
	}
	if diff := cmp.Diff(want, got); diff != "" || o.Code != reconfigure.CodePartial {
		t.Errorf("outcome %s (-want +got):\n%s", o.Code, diff)
	}
}

func TestWhoFollowsHearsThatANodeIsTriedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := resumed(t, 1, 0)
		if diff := cmp.Diff([]string{"request 1: p2 is " + tried}, log.heard()); diff != "" {
			t.Errorf("notes (-want +got):\n%s", diff)
		}
	})
}

// TestSecondTryWaitsOutAnOutage for as long as Slurm waits, and keeps its count.
func TestSecondTryWaitsOutAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := enginetest.NewWorld(declared())
		w.Have("ctl", "p1")
		w.PowersUp("p2")
		time.Sleep(time.Second)
		log := &memory{}
		r := request(1, reconfigure.Resume, "p2")
		r.Submitted, r.Held = time.Now(), true
		r.Waits = []reconfigure.Wait{{Node: "p2", Request: 1, Reason: tried, Tries: 1, Class: reconfigure.ClassSSH}}
		log.submit(r)
		w.Order(enginetest.SlurmSilent)
		time.AfterFunc(5*time.Minute, func() { w.Clear(enginetest.SlurmSilent) })
		if err := batch.Work(t.Context(), log, forgiving(w, 1), poll); err != nil {
			t.Fatal(err)
		}
		if o := log.finished[0]; o.Code != reconfigure.CodeDone || log.batches != 1 {
			t.Errorf("in %d batches: %+v", log.batches, o)
		}
	})
}
