package simulate_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// A job that is killed counts as lost, unless nobody could have known of it.
func TestOnlyAJobAfterTheLastCheckIsNotLost(t *testing.T) {
	const node = "node1"
	check := func(w *simulate.World) { _, _ = w.States(t.Context(), nodeset.Of(node)) }
	undrain, start := func(w *simulate.World) { w.Resumes(node) }, func(w *simulate.World) { w.StartJob(node) }
	drain := func(w *simulate.World) { w.Drained("disk is full", node) }
	for name, c := range map[string]struct {
		steps []func(*simulate.World)
		freed bool
	}{
		"undrained after the last check": {[]func(*simulate.World){drain, check, undrain, start}, true},
		"undrained before it":            {[]func(*simulate.World){drain, undrain, check, start}, false},
		"started before it":              {[]func(*simulate.World){drain, undrain, start, check}, false},
		"ran before the drain":           {[]func(*simulate.World){start, drain, check, undrain}, false},
		"never drained":                  {[]func(*simulate.World){check, start}, false},
		"never checked":                  {[]func(*simulate.World){drain, undrain, start}, false},
		"a drain of ours": {[]func(*simulate.World){
			func(w *simulate.World) { w.Drained(simulate.ReasonPrefix+"update", node) }, check, undrain, start,
		}, false},
		"long after the last check": {[]func(*simulate.World){
			drain, check, func(*simulate.World) { time.Sleep(time.Minute) }, undrain, start,
		}, false},
		"all nodes were listed after it": {[]func(*simulate.World){drain, check, undrain, start, func(w *simulate.World) {
			_, _ = w.States(t.Context(), nodeset.NodeSet{})
		}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := simulate.NewWorld(declared())
				w.Have("ctl", node)
				time.Sleep(time.Minute)
				for _, step := range c.steps {
					step(w)
					time.Sleep(time.Second)
				}
				if err := w.Reboot(t.Context(), w.IDs()[node]); err != nil {
					t.Fatal(err)
				}
				if want := []string{node}; c.freed != slices.Equal(w.Freed(), want) || c.freed == slices.Equal(w.Lost(), want) {
					t.Errorf("freed %v, lost %v", w.Freed(), w.Lost())
				}
			})
		})
	}
}
