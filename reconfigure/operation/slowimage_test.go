package operation_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// sees has the playbooks see something of one node.
type sees struct {
	operation.Configurer
	node string
	what reconfigure.Configured
}

func (s sees) Configure(
	ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance, extent reconfigure.Extent,
	watch operation.Watch, done func(node string, seen reconfigure.Configured, err error),
) (reconfigure.Failures, error) {
	return s.Configurer.Configure(ctx, c, instances, extent, watch,
		func(node string, seen reconfigure.Configured, err error) {
			if node == s.node {
				seen = s.what
			}
			done(node, seen, err)
		})
}

func TestTheVerdictSaysHowLongPackagesWereInstalled(t *testing.T) {
	test(t, func(l *lab) {
		l.deps.Configurer = sees{l.deps.Configurer, "p3", reconfigure.Configured{Installing: 48 * time.Second}}
		l.Takes(simulate.Playing, time.Minute, "p3")
		l.PowersUp("p3", "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.wantVerdicts(map[string]string{
			"p3": "done : it took 1m1s, 48s of them for packages that its image lacks: `reconfigure image create p3` makes an " +
				"image that has them",
			"p4": "done",
		})
	})
}

// TestAWrongClockIsNamed has munge refuse a node: slurmd starts, and does not register.
func TestAWrongClockIsNamed(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration
		words string
	}{
		{10 * time.Minute, "; its clock is 10m0s ahead of the control host's, and munge refuses"},
		{-time.Hour, "; its clock is 1h0m0s behind the control host's, and munge refuses"},
		{time.Minute, ""},
	} {
		test(t, func(l *lab) {
			l.deps.Configurer = sees{l.deps.Configurer, "p3", reconfigure.Configured{Clock: c.ahead}}
			l.Order(simulate.NeverRegisters, "p3")
			l.resumes(9*time.Minute, 0, "p3", "p4")
			said := l.carry()
			want := "slurmd did not register in time: Slurm has it as " + waiting + c.words
			if !strings.Contains(said["p3"], want) || c.words == "" && strings.Contains(said["p3"], "clock") {
				l.Errorf("%s ahead: %s", c.ahead, said["p3"])
			}
			l.want("p4", "done", said["p4"])
			l.want("class", reconfigure.ClassUnregistered, l.classes["p3"])
		})
	}
}
