package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestNotesDoNotHideHowFarANodeIs(t *testing.T) {
	for name, place := range map[string]places{
		"SQLite":     func(t testing.TB) string { return t.TempDir() },
		"PostgreSQL": func(t testing.TB) string { return startServer(t).database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			j := open(t, place(t))
			batch := begin(t, j, submit(t, j, "n1", "n2"))
			moved := func(node string, level reconfigure.Level) reconfigure.Event {
				e := event(batch, node, string(level)+" "+node)
				e.Level = level
				return e
			}
			noError(t, j.Record(t.Context(),
				moved("n1", reconfigure.Begun), moved("n2", reconfigure.Begun), event(batch, "n1", "a step"), moved("n1", reconfigure.Failed), moved("", reconfigure.Begun),
				event(batch, "n1", "left alone"), event(batch, "n1", "still"), event(batch, "n2", "a step"), event(batch, "n3", "not reached")))
			got := map[string]string{}
			for node, e := range must(j.LastMoves(t.Context()))(t) {
				got[node] = e.Message
			}
			if d := cmp.Diff(map[string]string{"n1": "failed n1", "n2": "begun n2"}, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
