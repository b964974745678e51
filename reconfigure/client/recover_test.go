package client

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/recovery"
)

// TestOnlyALostClusterIsRecovered refuses directories in which something is left, and continues what was begun.
func TestOnlyALostClusterIsRecovered(t *testing.T) {
	ctx := t.Context()
	s, log := usedSite(t) // with states, the id "the-id", and no map
	want := func(id, why string) {
		t.Helper()
		err := mayRecover(ctx, s, log, id)
		if _, refused := errors.AsType[*NotNowError](err); refused != (why != "") || !refused && err != nil {
			t.Errorf("want %q: %v", why, err)
		} else if refused && !strings.Contains(err.Error(), why) {
			t.Errorf("want %q: %v", why, err)
		}
	}
	want("another", "the instances have the id another")
	want("the-id", "tfstate exists")
	if err := os.RemoveAll(s.File("terraform")); err != nil {
		t.Fatal(err)
	}
	want("the-id", "")
	if err := log.AdoptNodes(ctx, map[string]reconfigure.Spec{"small001": {Group: "small", ImageID: "a"}}); err != nil {
		t.Fatal(err)
	}
	want("the-id", "knows the nodes")
	if err := log.Pause(ctx, "maintenance", "anna"); err != nil {
		t.Fatal(err)
	}
	want("the-id", "knows the nodes")
	if err := errors.Join(log.Continue(ctx), log.Recovering(ctx)); err != nil {
		t.Fatal(err)
	}
	want("the-id", "") // killed, and repeated
	if err := log.Continue(ctx); err != nil {
		t.Fatal(err)
	}
	want("the-id", "knows the nodes")
}

func TestWhatIsLeftIsAnError(t *testing.T) {
	r := RecoveredSite{Directory: "/site", ClusterID: "id", Nodes: "n1", Rest: []string{"Terraform would x"}}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	r.Left = []recovery.Left{{What: "n2", Reason: "it is SHUTOFF", Command: "openstack server start ID"}}
	if is := (&LeftBehindError{}); !errors.As(r.Err(), &is) || is.Left != 1 {
		t.Errorf("%v", r.Err())
	}
	for _, want := range []string{
		"instances: n1", "n2: it is SHUTOFF", "\n    openstack server start ID\n", "Terraform would x",
	} {
		if said := r.String(); !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}
