package operation

import (
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// progress is the progress of Terraform's and Ansible's runs for an operation. The runs write it from their goroutines.
type progress struct {
	lock sync.Mutex
	now  standing
}

// standing is a progress at one moment.
type standing struct {
	touched bool               // a change of the instance was requested, so something may be left
	waiting bool               // for a run that has not begun
	open    bool               // users may log in to the node
	made    time.Time          // when the cloud was first seen to have a new instance; zero: not yet
	server  reconfigure.Server // the attempt's instance; zero: not yet
	at      time.Time          // when the cloud was first seen to have it
}

func (p *progress) get() standing {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.now
}

func (p *progress) change(change func(*standing)) {
	p.lock.Lock()
	defer p.lock.Unlock()
	change(&p.now)
}

func (p *progress) touch(touched bool) { p.change(func(s *standing) { s.touched = touched }) }

func (p *progress) wait(waiting bool) { p.change(func(s *standing) { s.waiting = waiting }) }

// admit records that users may log in to the node.
func (p *progress) admit() { p.change(func(s *standing) { s.open = true }) }

// begin records that a run of Terraform has begun.
func (p *progress) begin(changes bool) {
	p.change(func(s *standing) {
		s.waiting, s.touched = false, s.touched || changes
	})
}

// appeared records that the cloud has the new instance. The first time counts.
func (p *progress) appeared(server reconfigure.Server) {
	now := time.Now()
	p.change(func(s *standing) {
		if s.made.IsZero() {
			s.made = now
		}
		if s.server.ID != server.ID {
			s.server, s.at = server, now
		}
	})
}

// forget records that the attempt has no instance.
func (p *progress) forget() {
	p.change(func(s *standing) { s.server, s.at = reconfigure.Server{}, time.Time{} })
}
