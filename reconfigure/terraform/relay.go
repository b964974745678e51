package terraform

import "sync"

// relay passes messages to a function that may be slow, in order and without blocking the sender.
type relay struct {
	mu     sync.Mutex
	more   *sync.Cond
	queue  [][2]string
	closed bool
	done   chan struct{}
}

// newRelay starts a relay to f. Close ends it.
func newRelay(f func(node, message string)) *relay {
	r := &relay{done: make(chan struct{})}
	r.more = sync.NewCond(&r.mu)
	go func() {
		defer close(r.done)
		for {
			batch := r.next()
			if batch == nil {
				return
			}
			for _, m := range batch {
				f(m[0], m[1])
			}
		}
	}()
	return r
}

// next returns the messages since the last call, and nil after the end.
func (r *relay) next() [][2]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) == 0 && !r.closed {
		r.more.Wait()
	}
	batch := r.queue
	r.queue = nil
	return batch
}

// send never blocks.
func (r *relay) send(node, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, [2]string{node, message})
	r.more.Signal()
}

// close returns when all messages have been passed to the function.
func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	r.more.Signal()
	r.mu.Unlock()
	<-r.done
}
