package status

import (
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

func TestTheLastLookForPeople(t *testing.T) {
	const every = 5 * time.Minute
	look := func(age time.Duration, unreachable []snapshot.Unreachable, findings ...reconcile.Finding) string {
		l := reconcile.Look{Time: utcNoon.Add(-age), Findings: findings, Unreachable: unreachable}
		return newLook(l, every, utcNoon).words(utcNoon)
	}
	leaked := func(node string) reconcile.Finding { return reconcile.Finding{Node: node, Kind: reconcile.Leaked} }
	lost := reconcile.Finding{Node: "node09", Kind: reconcile.Lost, Detail: "…"}
	for got, want := range map[string]string{
		look(3*time.Minute, nil): "The worker compared the sources 3m00s ago: they agreed.",
		look(
			time.Minute, nil, leaked("node03"), lost, leaked("node04"),
		): "The worker compared the sources 1m00s ago: leaked node[03-04], lost node09; `reconfigure reconcile` has more.",
		look(
			time.Minute, []snapshot.Unreachable{{Source: snapshot.Slurm, Reason: "?"}}, leaked("node03"),
		): "The worker compared the sources 1m00s ago: not all of them answered.",
		look(
			reconcile.StaleAfter*every+time.Second, nil,
		): "The worker compared the sources 20m01s ago, and not since then (`reconfigure worker` does): they agreed.",
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if r := newLook(reconcile.Look{}, every, utcNoon); r != nil {
		t.Error("no worker has compared yet")
	}
	if r := newLook(reconcile.Look{Time: utcNoon}, 0, utcNoon); r != nil {
		t.Error("no worker is to compare")
	}
}
