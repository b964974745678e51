package operation_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// afterDown calls something after a node was set DOWN.
type afterDown struct {
	operation.Scheduler
	do func()
}

func (a afterDown) Down(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	err := a.Scheduler.Down(ctx, nodes, reason)
	a.do()
	return err
}

// slurmd registers too late, just after the node was set DOWN: the node returns to service, and Slurm starts a job there.
// To power it down would end that job.
func TestANodeOnWhichAJobHasStartedIsNotHandedBack(t *testing.T) {
	for name, registers := range map[string]bool{"slurmd registers": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				scheduler := l.deps.Scheduler
				l.deps.Scheduler = func(control reconfigure.Instance) operation.Scheduler {
					return afterDown{scheduler(control), func() {
						for !strings.HasPrefix(l.Node("p3").State, "ALLOCATED") && registers {
							time.Sleep(time.Second)
							l.StartJob("p3")
						}
					}}
				}
				if l.Takes(simulate.Registering, 20*time.Minute, "p3"); !registers {
					l.Order(simulate.NeverRegisters, "p3")
				}
				l.PowersUp("p3")
				l.wants(reconfigure.Create, "p3")
				l.carry()
				l.want("lost jobs", 0, len(l.Lost()))
				handedBack := slices.Contains(l.Calls(), "power_down p3")
				l.want("it is handed back", !registers, handedBack)
				l.want("it has an instance", registers, l.Node("p3").Instance.ID != "")
			})
		})
	}
}

// An image is bumped after a worker has died. The server that it has asked for is of the old image, and must not count
// as what is asked for now, although it is newer than the request.
func TestAnInstanceOfAnotherImageIsNotTakenForTheOneAskedFor(t *testing.T) {
	for _, how := range []simulate.Half{simulate.Unwritten, simulate.Unknown, simulate.Tainted} {
		t.Run(string(how), func(t *testing.T) {
			test(t, func(l *lab) {
				since := time.Now()
				l.PowersUp("p3")
				l.wants(reconfigure.Create, "p3")
				l.dies(how)
				time.Sleep(time.Minute)
				bumped := declared()
				bumped.Groups[0].Image = "v2"
				l.cluster = bumped
				l.Declare(bumped)
				l.plan = reconfigure.Plan{}
				l.wants(reconfigure.Create, "p3")
				if how == simulate.Tainted {
					l.change("p3").Action = reconfigure.Replace
				}
				l.change("p3").Since = since
				l.wantDone("p3")
				servers, err := l.Servers(t.Context(), nodeset.Of("p3"))
				if err != nil || len(servers["p3"]) != 1 {
					t.Fatal(servers, err)
				}
				for _, e := range l.Events() {
					if strings.Contains(e.Message, "could not be imported") {
						t.Errorf("it was to be adopted: %s", e.Message)
					}
				}
				l.want("image", "id-of-v2", servers["p3"][0].ImageID)
				l.want("instance", servers["p3"][0].ID, l.Node("p3").Instance.ID)
			})
		})
	}
}

// withRecord is Terraform for a site whose own resource for each node is made after the instance.
type withRecord struct {
	operation.Provisioner
	applied chan<- time.Time
}

func (w withRecord) Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error) {
	preview, err := w.Provisioner.Preview(ctx, p)
	for _, c := range p.Changes {
		preview.Changes = append(preview.Changes, reconfigure.ResourceChange{
			Address: "dns_a_record." + c.Node, Node: c.Node, Effect: reconfigure.EffectCreate,
		})
	}
	return preview, err
}

func (w withRecord) Apply(
	ctx context.Context, p reconfigure.Preview, watch operation.Watch, interrupt <-chan struct{},
) (reconfigure.Failures, error) {
	p.Changes = slices.DeleteFunc(slices.Clone(p.Changes), func(c reconfigure.ResourceChange) bool { return c.Kind == "" })
	failures, err := w.Provisioner.Apply(ctx, p, watch, interrupt)
	w.applied <- time.Now()
	return failures, err
}

// An instance with a resource of the site's after it is used when Terraform has made that, too.
func TestANodeWithAResourceOfTheSiteIsDeliveredWhenTerraformHasEnded(t *testing.T) {
	test(t, func(l *lab) {
		applied, reached := make(chan time.Time, 1), make(chan time.Time, 1)
		provisioner := l.deps.Provisioner
		l.deps.Provisioner = func(shard string) operation.Provisioner { return withRecord{provisioner(shard), applied} }
		l.Then(simulate.AfterWait, func() { reached <- time.Now() })
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.wantDone("p3")
		if end, used := <-applied, <-reached; used.Before(end) {
			t.Errorf("it is used %s before Terraform has ended", end.Sub(used))
		}
	})
}
