package ansible

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// prepared is an Ansible that has started, and waits for its variables: their file is a named pipe. Ansible reads it
// before the inventory and the playbook.
type prepared struct {
	scratch  scratch
	playbook string
	events   stream
	cancel   context.CancelCauseFunc // ends the process
	taken    chan struct{}           // closed when a run has it
	ended    chan struct{}           // closed when the process has ended, with err
	err      error
}

// Prepare starts Ansible for the next Configure of changed compute nodes. So its start, which takes half a second,
// passes while instances are made and boot. Prepare returns when a Configure has taken the process, when ctx ends, or
// at once if another one waits already. It leaves nothing behind. It reports no error: a Configure without such a
// process starts its own.
func (r *Runner) Prepare(ctx context.Context, c reconfigure.Cluster) {
	if !r.preparing.TryLock() {
		return
	}
	defer r.preparing.Unlock()
	p, err := r.prepare(ctx, c)
	if err != nil {
		return
	}
	r.offer(p)
	select {
	case <-p.taken:
		return
	case <-ctx.Done():
	case <-p.ended:
	}
	if r.take(p.playbook) == nil {
		return // a run was faster
	}
	p.end(context.Cause(ctx))
	_ = p.scratch.close(ctx) // the next sweep removes what is left
}

// end ends a process that no run uses.
func (p *prepared) end(cause error) {
	p.cancel(cause)
	<-p.ended
	p.events.discard()
}

func (r *Runner) prepare(ctx context.Context, c reconfigure.Cluster) (_ *prepared, err error) {
	s, err := newScratch(c.Settings.StateDir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	p := &prepared{scratch: s, playbook: playbookFor(c, reconfigure.Extent{}), taken: make(chan struct{}),
		ended: make(chan struct{})}
	command, err := executor{Runner: r, scratch: s, playbook: p.playbook, ready: p}.command()
	if err != nil {
		return nil, err
	}
	// Ansible looks for the inventory first, and reads it later.
	err = errors.Join(unix.Mkfifo(s.pipe(), 0o600), os.WriteFile(s.inventory(), []byte("{}"), 0o600))
	if err != nil {
		return nil, err
	}
	if p.events, err = listen(s.events()); err != nil {
		return nil, err
	}
	var running context.Context
	running, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		defer close(p.ended)
		p.err = process.Run(running, command)
		p.cancel(nil)
	}()
	return p, nil
}

// offer has the next run take a process.
func (r *Runner) offer(p *prepared) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.waiting = p
}

// take returns the process that waits, if it runs this playbook; nil: there is none. It has one taker.
func (r *Runner) take(playbook string) *prepared {
	r.lock.Lock()
	defer r.lock.Unlock()
	p := r.waiting
	if p == nil || p.playbook != playbook {
		return nil
	}
	r.waiting = nil
	close(p.taken)
	return p
}

// run lets Ansible continue with the variables, and returns how it ended, as process.Run does.
func (p *prepared) run(ctx context.Context) error {
	if err := p.release(ctx); err != nil {
		p.cancel(err)
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.cancel(context.Cause(ctx))
		<-p.ended
	}
	return p.err
}

// release writes the variables to the pipe as soon as Ansible has opened it. Then the file with them takes its place.
func (p *prepared) release(ctx context.Context) error {
	text, err := os.ReadFile(p.scratch.vars())
	if err != nil {
		return err
	}
	for {
		pipe, err := os.OpenFile(p.scratch.pipe(), os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			_, err = pipe.Write(text)
			return errors.Join(os.Rename(p.scratch.vars(), p.scratch.pipe()), err, pipe.Close())
		}
		if !errors.Is(err, unix.ENXIO) { // nobody has it open for reading
			return err
		}
		select {
		case <-p.ended:
			return fs.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(openPause):
		}
	}
}

// openPause is the time between two looks whether Ansible has opened the pipe.
const openPause = 2 * time.Millisecond
