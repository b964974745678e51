package journal

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// player is a carrier that does as it is told: resumes come to their end when they are let go, or when the batch is cut short; updates are held until then.
type player struct {
	lock    sync.Mutex
	batches [][]reconfigure.RequestID
	causes  []error // with which batches were cut short
	ready   chan struct{}
}

func (p *player) Carry(ctx context.Context, _ int64, requests []reconfigure.Request, _ func()) (outcomes []reconfigure.Outcome, err error) {
	var ids []reconfigure.RequestID
	for _, r := range requests {
		ids = append(ids, r.ID)
	}
	p.lock.Lock()
	p.batches = append(p.batches, ids)
	p.lock.Unlock()
	for _, r := range requests {
		o := reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone}
		switch {
		case r.Mode == reconfigure.Update && !p.over():
			o.Deferred = []reconfigure.Deferral{{Node: "n1", Request: r.ID, Reason: "its jobs have to end first"}}
		case r.Mode == reconfigure.Resume:
			select {
			case <-p.ready:
			case <-ctx.Done():
				p.lock.Lock()
				defer p.lock.Unlock()
				p.causes = append(p.causes, context.Cause(ctx))
				return nil, context.Cause(ctx)
			}
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

func (p *player) Stirs(context.Context, []reconfigure.Request) (bool, error) { return p.over(), nil }

func (p *player) over() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

func (p *player) begun() int {
	p.lock.Lock()
	defer p.lock.Unlock()
	return len(p.batches)
}

// A worker goes on after the server was started anew: in the middle of a batch, of which it lets go, and while it watches.
func TestAWorkerOutlivesARestartOfTheServer(t *testing.T) {
	for name, mode := range map[string]reconfigure.Mode{"in the middle of a batch": reconfigure.Resume, "while it watches": reconfigure.Update} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			url := s.database(t)
			worker, caller := open(t, url), open(t, url)
			r := must(caller.Submit(t.Context(), reconfigure.Request{Mode: mode, Nodes: nodeset.Of("n1")}))(t)
			p := &player{ready: make(chan struct{})}
			troubles := make(chan error, 100)
			ended := make(chan error, 1)
			go func() {
				ended <- batch.Work(t.Context(), worker, p, 100*time.Millisecond, batch.Trouble(func(err error, _ time.Duration) { troubles <- err }))
			}()
			eventually(t, "it is at work", func() bool {
				if mode == reconfigure.Update {
					return found(t, caller, r.ID).Held
				}
				return p.begun() == 1
			})

			s.Toggle(t)
			if err := <-troubles; err == nil {
				t.Error("no trouble")
			}
			s.Toggle(t)
			eventually(t, "the server answers", func() bool { _, err := caller.Pending(t.Context()); return err == nil })
			next := submit(t, caller, "n2")
			eventually(t, "it is at work again", func() bool { return p.begun() == 2 })
			close(p.ready)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			for _, id := range []reconfigure.RequestID{r.ID, next.ID} {
				if o, ok, err := caller.Outcome(t.Context(), id); !ok || err != nil || o.Code != reconfigure.CodeDone {
					t.Errorf("request %s: %+v, %v, %v", id, o, ok, err)
				}
			}
			cut := map[reconfigure.Mode]int{reconfigure.Resume: 1}[mode]
			if len(p.causes) != cut || cut > 0 && !errors.Is(p.causes[0], ErrLeaseLost) {
				t.Errorf("of batches %v were cut short: %v", p.batches, p.causes)
			}
		})
	}
}
