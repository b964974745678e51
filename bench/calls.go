package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// callers compares many calls at once with as many bare starts of the same program.
func (b *bench) callers(ctx context.Context) (report, error) {
	r := report{about: fmt.Sprintf(
		"Many calls of `reconfigure resume --no-wait` at once, as Slurm's scripts make them, while a worker runs and the "+
			"journal is paused. Compared with as many starts of `reconfigure version` at once. Each call has written its "+
			"request durably when it ends: all are in the journal. Medians of %d rounds.", rounds,
	)}
	s, err := b.site(ctx, b.sizes.clusters[0])
	if err != nil {
		return r, err
	}
	if err := s.do(ctx, "pause", "--reason", "a benchmark"); err != nil {
		return r, err
	}
	worker, err := s.stay(ctx)
	if err != nil {
		return r, err
	}
	r.details = [][]string{{"callers", "what", "half of them", "99 of 100", "all", "CPU each"}}
	for _, n := range b.sizes.callers {
		row, details, err := s.callers(ctx, n)
		if err != nil {
			return r, err
		}
		r.rows, r.details = append(r.rows, row), append(r.details, details...)
	}
	if err := worker.end(); err != nil {
		return r, err
	}
	return r, s.do(ctx, "continue")
}

// callers measures n callers, then cancels their requests.
func (s *site) callers(ctx context.Context, n int) (r row, details [][]string, err error) {
	before, err := s.journal.Pending(ctx)
	if err != nil {
		return r, nil, err
	}
	var bare, calls []together
	for range rounds {
		t, err := atOnce(n, func(int) *exec.Cmd { return s.call(ctx, "version") })
		if err != nil {
			return r, nil, err
		}
		bare = append(bare, t)
		details = append(details, t.columns(n, "bare starts"))
		t, err = atOnce(n, func(i int) *exec.Cmd { return s.call(ctx, "resume", "--no-wait", nodeName(1+i%s.size)) })
		if err != nil {
			return r, nil, err
		}
		calls = append(calls, t)
		details = append(details, t.columns(n, "calls"))
	}
	after, err := s.journal.Pending(ctx)
	if err != nil {
		return r, nil, err
	}
	if lost := rounds*n - (len(after) - len(before)); lost != 0 {
		return r, nil, fmt.Errorf("%d requests are not in the journal", lost)
	}
	for _, request := range after {
		if err := s.journal.Cancel(ctx, request.ID); err != nil {
			return r, nil, err
		}
	}
	took, least := middle(calls, whole), middle(bare, whole)
	all := times(took, least)
	return row{
		what: fmt.Sprintf("%d callers at once, until the last one has ended", n), measured: seconds(took),
		beside: "bare starts " + seconds(least), ratio: ratio(all), goal: "<= 1.5", met: all <= 1.5,
	}, details, nil
}

// together has the times of processes that run at the same time.
type together struct {
	each []time.Duration // sorted
	all  time.Duration
	cpu  time.Duration // of all processes
}

func whole(t together) time.Duration { return t.all }

func (t together) columns(n int, what string) []string {
	at := func(part float64) string { return seconds(t.each[int(part*float64(len(t.each)-1))]) }
	return []string{
		fmt.Sprint(n), what, at(0.5), at(0.99), seconds(t.all),
		fmt.Sprintf("%.0f ms", float64(t.cpu.Milliseconds())/float64(len(t.each))),
	}
}

// atOnce runs many processes, all of which must succeed.
func atOnce(n int, command func(int) *exec.Cmd) (together, error) {
	var (
		lock   sync.Mutex
		t      together
		failed error
		wait   sync.WaitGroup
	)
	begun := time.Now()
	for i := range n {
		cmd := command(i)
		wait.Go(func() {
			out, err := cmd.CombinedOutput()
			took := time.Since(begun)
			lock.Lock()
			defer lock.Unlock()
			if t.each = append(t.each, took); err != nil {
				failed = fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
				return
			}
			t.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		})
	}
	wait.Wait()
	t.all = time.Since(begun)
	slices.Sort(t.each)
	return t, failed
}

// resident is a worker that keeps running.
type resident struct {
	*exec.Cmd
	site *site
}

// stay starts a resident worker, and returns when it has the lease.
func (s *site) stay(ctx context.Context) (resident, error) {
	r := resident{s.call(ctx, "worker", "--stay"), s}
	if err := r.Start(); err != nil {
		return r, err
	}
	return r, until(ctx, patience, 20*time.Millisecond, "the worker has the lease", func() (bool, error) {
		return s.journal.Holder(ctx) != "", nil
	})
}

// end interrupts the worker and waits until it has ended.
func (r resident) end() error {
	if err := interrupt(r.Cmd); err != nil {
		return err
	}
	_ = r.Wait() // ending by an interrupt is not an error
	return nil
}

// waiting measures the CPU time of a worker that waits for a job.
func (b *bench) waiting(ctx context.Context) (report, error) {
	r := report{about: "A worker with one request that waits for a job. It asks Terraform's state, the cloud and Slurm " +
		"at its usual interval. Memory is its largest resident set (proc(5), VmHWM)."}
	for _, size := range b.sizes.clusters {
		s, err := b.site(ctx, size)
		if err != nil {
			return r, err
		}
		share, peak, err := s.waitingWorker(ctx, b.sizes.deferring)
		if err != nil {
			return r, fmt.Errorf("%d nodes: %w", size, err)
		}
		r.rows = append(r.rows, row{
			what:     fmt.Sprintf("CPU of a worker that waits for a job, %d nodes", size),
			measured: fmt.Sprintf("%.2f %% of a core", 100*share),
			goal:     "< 1 %", met: share < 0.01,
		}, memoryRow(fmt.Sprintf("memory of a worker that waits for a job, %d nodes", size), peak))
	}
	return r, nil
}

// waitingWorker returns the part of a core that a worker uses while it waits for a job on the last node, and its
// largest resident set in MiB.
func (s *site) waitingWorker(ctx context.Context, longest time.Duration) (share, peak float64, err error) {
	if err := errors.Join(s.resumed(ctx), s.busy()); err != nil {
		return 0, 0, err
	}
	worker, err := s.stay(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := s.do(ctx, "update", "--reimage", "--no-wait", nodeName(s.size)); err != nil {
		return 0, 0, err
	}
	waits := func() (bool, error) {
		pending, err := s.journal.Pending(ctx)
		return err == nil && len(pending) == 1 && pending[0].IsDeferred(), err
	}
	if err := until(ctx, patience, 100*time.Millisecond, "the request is deferred", waits); err != nil {
		return 0, 0, err
	}
	before, _ := statusOf(worker.Process.Pid)
	begun := time.Now()
	select {
	case <-time.After(longest):
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	after, there := statusOf(worker.Process.Pid)
	if ok, err := waits(); !ok || !there {
		return 0, 0, fmt.Errorf("the request is deferred no more, or the worker has ended: %w", err)
	}
	share = float64(after.cpu-before.cpu) / float64(time.Since(begun))
	if peak, err = peakOf(worker.Process.Pid); err != nil {
		return 0, 0, err
	}
	// The job ends.
	if err := s.slurmSays("IDLE", "CLOUD", "DRAIN"); err != nil {
		return 0, 0, err
	}
	err = until(ctx, patience, 100*time.Millisecond, "the request has ended", func() (bool, error) {
		pending, err := s.journal.Pending(ctx)
		return err == nil && len(pending) == 0, err
	})
	return share, peak, errors.Join(err, worker.end())
}

// resumed makes the instance of the last node.
func (s *site) resumed(ctx context.Context) error {
	for _, server := range s.cloud.Servers() {
		if server.Name == nodeName(s.size) {
			return nil
		}
	}
	_, err := s.change(ctx, "resume")
	return err
}

// status measures `reconfigure status` for clusters of several sizes.
func (b *bench) status(ctx context.Context) (report, error) {
	r := report{about: "`reconfigure status`, which asks Terraform's states, the cloud, Slurm and the journal."}
	var first time.Duration
	for _, size := range b.sizes.clusters {
		s, err := b.site(ctx, size)
		if err != nil {
			return r, err
		}
		var took []time.Duration
		for range 3 {
			begun := time.Now()
			if err := s.do(ctx, "status"); err != nil {
				return r, err
			}
			took = append(took, time.Since(begun))
		}
		m := median(took)
		if first == 0 {
			first = m
		}
		one := row{
			what: fmt.Sprintf("status of %d nodes", size), measured: fmt.Sprintf("%.2f s", m.Seconds()),
			beside: fmt.Sprintf("%d nodes: %.2f s", b.sizes.clusters[0], first.Seconds()), ratio: ratio(times(m, first)),
			value: m.Seconds(),
		}
		r.rows = append(r.rows, one)
	}
	return r, nil
}
