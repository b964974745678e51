package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/postgres"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// These tests start the test binary as other processes. The variable names the part that such a process plays.
const partVariable = "EIFFEL_JOURNAL_TEST_PART" // part:name

// parts are the functions of these processes. Each prints its result.
var parts = map[string]func(ctx context.Context, j *Journal, name string) error{
	"submit": submitSome,
	"record": recordUntilKilled,
	"lease":  leaseUntilEOF,
}

const (
	submitsOfEach = 6
	eventsOfEach  = 50
)

func TestMain(m *testing.M) {
	postgres.KeepIfAsked()
	if part, name, found := strings.Cut(os.Getenv(partVariable), ":"); found {
		if err := play(part, name, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func play(part, name, place string) error {
	ctx := context.Background()
	// All begin at once, when the test closes the pipe.
	if part != "lease" {
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			return err
		}
	}
	j, err := openAt(ctx, place)
	if err != nil {
		return err
	}
	return errors.Join(parts[part](ctx, j, name), j.Close())
}

func submitSome(ctx context.Context, j *Journal, name string) error {
	for i := range submitsOfEach {
		reason := fmt.Sprintf("%s/%d", name, i)
		r, err := j.Submit(ctx, reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("n1"), Reason: reason})
		if err != nil {
			return err
		}
		fmt.Println(r.ID, reason)
	}
	return nil
}

func recordUntilKilled(ctx context.Context, j *Journal, name string) error {
	r, err := j.Submit(ctx, reconfigure.Request{Mode: reconfigure.Deploy})
	if err != nil {
		return err
	}
	plan, err := j.Begin(ctx, []reconfigure.RequestID{r.ID})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		events := make([]reconfigure.Event, eventsOfEach)
		for k := range events {
			events[k] = event(plan, fmt.Sprint("n", k), fmt.Sprint(i))
		}
		if err := j.Record(ctx, events...); err != nil {
			return err
		}
		fmt.Println(r.ID, i)
	}
}

func leaseUntilEOF(ctx context.Context, j *Journal, name string) error {
	release, ok, err := j.Acquire(ctx)
	if err != nil {
		return err
	}
	fmt.Println("acquired:", ok)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil || !ok {
		return err
	}
	return release()
}

// actor is a process with a part. It is killed at the end of the test.
type actor struct {
	*exec.Cmd
	said   *bufio.Scanner
	errors strings.Builder
}

func start(t *testing.T, place, part, name string, stdin *os.File) *actor {
	t.Helper()
	a := &actor{Cmd: exec.CommandContext(t.Context(), os.Args[0], place)}
	a.Env = append(os.Environ(), partVariable+"="+part+":"+name)
	a.Stdin, a.Stderr = stdin, &a.errors
	out, err := a.StdoutPipe()
	noError(t, err)
	a.said = bufio.NewScanner(out)
	noError(t, a.Start())
	t.Cleanup(func() {
		if a.ProcessState == nil {
			_ = a.kill()
		}
	})
	return a
}

// kill sends SIGKILL and waits until the process has ended, and with it its locks.
func (a *actor) kill() error {
	if err := a.Process.Kill(); err != nil {
		return err
	}
	return a.end(syscall.SIGKILL)
}

// end reads the rest of the output and waits. An end by the signal is no error.
func (a *actor) end(of syscall.Signal) error {
	for a.said.Scan() {
	}
	err := a.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == of {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, a.errors.String())
	}
	return nil
}

// gate returns a standard input that ends when open is called.
func gate(t *testing.T) (stdin *os.File, open func()) {
	t.Helper()
	r, w, err := os.Pipe()
	noError(t, err)
	open = sync.OnceFunc(func() { w.Close() })
	t.Cleanup(func() { open(); r.Close() })
	return r, open
}

// processRules are the tests of the suite with several processes, or with several open journals at one place, which
// share as little as possible.
func processRules() map[string]func(t *testing.T, place string) {
	return map[string]func(*testing.T, string){
		"no request of fifty processes is lost when some are killed":  fiftySubmit,
		"a kill leaves whole records":                                 wholeAfterKill,
		"one of many processes has the lease, and its death frees it": deathFreesLease,
		"many processes open a new journal at once":                   manyOpen,
		"a reader of new events misses none":                          readerMissesNothing,
		"Holder does not disturb Acquire":                             holderDisturbsNothing,
	}
}

func fiftySubmit(t *testing.T, place string) {
	const processes = 50
	stdin, open := gate(t)
	actors := make([]*actor, processes)
	for i := range actors {
		actors[i] = start(t, place, "submit", fmt.Sprint(i), stdin)
	}
	open()

	var (
		group    sync.WaitGroup
		mutex    sync.Mutex
		returned = map[string]string{} // reason → ID
	)
	for i, a := range actors {
		group.Go(func() {
			fatal := submitsOfEach // a tenth of them is killed after some submits have returned
			if i%10 == 0 {
				fatal = rand.IntN(submitsOfEach - 1)
			}
			for n := 0; ; n++ {
				if n == fatal {
					_ = a.Process.Kill() // it may have ended
				}
				if !a.said.Scan() {
					break
				}
				id, reason, _ := strings.Cut(a.said.Text(), " ")
				mutex.Lock()
				returned[reason] = id
				mutex.Unlock()
			}
			if err := a.end(syscall.SIGKILL); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	group.Wait()
	compareWithKept(t, place, returned)
}

func compareWithKept(t *testing.T, place string, returned map[string]string) {
	t.Helper()
	if least := 45 * submitsOfEach; len(returned) < least {
		t.Errorf("%d submits returned, want at least %d", len(returned), least)
	}
	kept := map[string]string{}
	for _, r := range must(open(t, place).Pending(t.Context()))(t) {
		if before, twice := kept[r.Reason]; twice {
			t.Errorf("%s occurs twice: %s and %s", r.Reason, before, r.ID)
		}
		kept[r.Reason] = r.ID.String()
	}
	for reason, id := range returned {
		if kept[reason] != id {
			t.Errorf("%s returned as %s and is kept as %q", reason, id, kept[reason])
		}
	}
	if unsaid := len(kept) - len(returned); unsaid > 5 {
		t.Errorf("%d more are in the journal than returned; five processes were killed", unsaid)
	}
}

func wholeAfterKill(t *testing.T, place string) {
	stdin, openGate := gate(t)
	openGate()
	for round := range 8 {
		a := start(t, place, "record", "", stdin)
		var id reconfigure.RequestID
		var done int
		for range 1 + rand.IntN(20) {
			if !a.said.Scan() {
				t.Fatalf("it ended: %s", a.errors.String())
			}
			if _, err := fmt.Sscan(a.said.Text(), &id, &done); err != nil {
				t.Fatal(err)
			}
		}
		noError(t, a.kill())

		j := must(openAt(t.Context(), place))(t)
		events := must(j.Events(t.Context(), id, 0))(t)
		if len(events)%eventsOfEach != 0 || len(events) < (done+1)*eventsOfEach {
			t.Errorf("round %d: %d events; %d calls of %d returned", round, len(events), done+1, eventsOfEach)
		}
		for i, e := range events {
			if want := fmt.Sprint(i / eventsOfEach); e.Message != want {
				t.Fatalf("round %d: event %d is of call %s, not %s", round, i, e.Message, want)
			}
		}
		if _, ok := j.store.(sqliteStore); ok {
			var verdict string
			noError(t, j.db.QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&verdict))
			if verdict != "ok" {
				t.Errorf("round %d: %s", round, verdict)
			}
		}
		noError(t, j.Close())
	}
}

func deathFreesLease(t *testing.T, place string) {
	stdin, openGate := gate(t)
	actors := make([]*actor, 12)
	for i := range actors {
		actors[i] = start(t, place, "lease", fmt.Sprint(i), stdin)
	}
	var holders []*actor
	for _, a := range actors {
		if !a.said.Scan() {
			t.Fatalf("a process ended: %s", a.errors.String())
		}
		if a.said.Text() == "acquired: true" {
			holders = append(holders, a)
		}
	}
	if len(holders) != 1 {
		t.Fatalf("%d processes have the lease", len(holders))
	}
	j, holder := open(t, place), holders[0]
	if who := j.Holder(t.Context()); !strings.HasPrefix(who, fmt.Sprintf("process %d on ", holder.Process.Pid)) {
		t.Errorf("process %d has the lease, and Holder returns %q", holder.Process.Pid, who)
	}
	if _, ok, err := j.Acquire(t.Context()); ok || err != nil {
		t.Errorf("acquired a lease that is taken: %v, %v", ok, err)
	}
	noError(t, holder.kill())
	// The kernel frees a lock with its process; a server must notice the end first.
	eventually(t, "the lease is free", func() bool { return j.Holder(t.Context()) == "" })
	release, ok, err := j.Acquire(t.Context())
	if !ok || err != nil {
		t.Fatalf("the lease is not free: %v, %v", ok, err)
	}
	noError(t, release())
	openGate()
	for _, a := range actors {
		if a != holder {
			noError(t, a.end(0))
		}
	}
}

func manyOpen(t *testing.T, place string) {
	start := make(chan struct{})
	var group sync.WaitGroup
	for range 12 {
		group.Go(func() {
			<-start
			j, err := openAt(t.Context(), place)
			if err != nil {
				t.Error(err)
				return
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	group.Wait()
}

func readerMissesNothing(t *testing.T, place string) {
	const recorders, calls = 6, 40
	j := open(t, place)
	r := submit(t, j, "n1")
	plan := begin(t, j, r)
	var group sync.WaitGroup
	for range recorders {
		recorder := open(t, place)
		group.Go(func() {
			for range calls {
				if err := recorder.Record(t.Context(), event(plan, "n1", ""), event(plan, "n1", "")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	var seen, last int64
	for over := false; !over; {
		select {
		case <-done:
			over = true // read again
		default:
		}
		for _, e := range must(j.Events(t.Context(), r.ID, last))(t) {
			seen, last = seen+1, e.ID
		}
	}
	if want := int64(2 * recorders * calls); seen != want {
		t.Errorf("%d events were seen of %d", seen, want)
	}
}

func holderDisturbsNothing(t *testing.T, place string) {
	j, stop := open(t, place), make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		reader := open(t, place)
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					reader.Holder(t.Context())
				}
			}
		})
	}
	for range 100 {
		release, ok, err := j.Acquire(t.Context())
		if !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
			break
		}
		noError(t, release())
	}
	close(stop)
	readers.Wait()
}
