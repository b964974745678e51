package ansible

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// prepared is an Ansible that has started and waits for its inventory, which it reads before everything else.
type prepared struct {
	scratch  scratch
	playbook string
	events   stream
	release  *os.File                // the other end of Ansible's standard input
	cancel   context.CancelCauseFunc // ends the process
	taken    chan struct{}           // closed when a run has it
	ended    chan struct{}           // closed when the process has ended, with err
	err      error
}

// inventoryProgram prints the inventory as soon as it reads a line from Ansible's standard input.
const inventoryProgram = `#!/bin/sh
read -r go && exec cat "${0%/*}/inventory.list"
`

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
	p.cancel(context.Cause(ctx))
	<-p.ended
	p.events.discard()
	_ = errors.Join(p.release.Close(), p.scratch.close(ctx)) // the next sweep removes what is left
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
	if err := os.WriteFile(s.program(), []byte(inventoryProgram), 0o700); err != nil {
		return nil, err
	}
	if err := unix.Access(s.program(), unix.X_OK); err != nil {
		return nil, fmt.Errorf("%s: %w", s.program(), err) // the file system is mounted with noexec
	}
	p := &prepared{scratch: s, playbook: playbookFor(c, reconfigure.Extent{}), taken: make(chan struct{}),
		ended: make(chan struct{})}
	command, err := executor{Runner: r, scratch: s, playbook: p.playbook, ready: p}.command()
	if err != nil {
		return nil, err
	}
	in, release, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if p.events, err = listen(s.events()); err != nil {
		return nil, errors.Join(err, in.Close(), release.Close())
	}
	p.release, command.Stdin = release, in
	var running context.Context
	running, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		defer close(p.ended)
		p.err = process.Run(running, command)
		p.cancel(nil)
		_ = in.Close()
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

// run lets Ansible continue, and returns how it ended, as process.Run does.
func (p *prepared) run(ctx context.Context) error {
	defer func() { _ = p.release.Close() }()
	if _, err := p.release.WriteString("go\n"); err != nil {
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
