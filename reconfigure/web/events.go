package web

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// beat is the interval at which the journal is looked at while somebody listens.
	beat = time.Second
	// silence is the interval at which a listener gets a comment, so that a proxy keeps the connection and an end of it is
	// noticed.
	silence = 20 * time.Second
	// listeners is the maximum number of listeners.
	listeners = 200
	// writeWithin is the time limit for a write to a listener.
	writeWithin = 10 * time.Second
)

// pulses tells listeners that something has changed, as server-sent events. One goroutine reads the journal for all of
// them; it runs while there are any.
type pulses struct {
	ctx  context.Context
	read func(ctx context.Context) (string, error)

	lock     sync.Mutex
	last     string
	heard    map[chan string]bool
	watching bool // a goroutine reads the journal
}

// serve is a handler. An event has a new pulse as its data.
func (p *pulses) serve(w http.ResponseWriter, r *http.Request) {
	news, ok := p.join()
	if !ok {
		http.Error(w, "too many pages listen", http.StatusServiceUnavailable)
		return
	}
	defer p.leave(news)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would collect the events
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the server's is for requests that end
	write := func(text string) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeWithin)) // a test's recorder has none
		_, err := fmt.Fprint(w, text)
		return err == nil && out.Flush() == nil
	}
	defer func() { _ = out.SetWriteDeadline(time.Now().Add(writeWithin)) }() // for the end of the stream
	if !write("retry: 5000\n\n") {
		return
	}
	quiet := time.NewTicker(silence)
	defer quiet.Stop()
	for {
		said := ": nothing new\n\n"
		select {
		case <-r.Context().Done():
			return
		case <-p.ctx.Done():
			return
		case pulse := <-news:
			said = "data: " + pulse + "\n\n"
		case <-quiet.C:
		}
		if !write(said) {
			return
		}
	}
}

// join returns a channel for a listener, which gets the current pulse first; false if there are too many.
func (p *pulses) join() (chan string, bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if len(p.heard) >= listeners {
		return nil, false
	}
	if p.heard == nil {
		p.heard = map[chan string]bool{}
	}
	news := make(chan string, 1)
	p.heard[news] = true
	if !p.watching {
		p.watching, p.last = true, "" // the last pulse may be old
		go p.watch()
	} else if p.last != "" {
		news <- p.last
	}
	return news, true
}

func (p *pulses) leave(news chan string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	delete(p.heard, news)
}

// watch reads the pulse until nobody listens.
func (p *pulses) watch() {
	next := time.NewTicker(beat)
	defer next.Stop()
	for p.look() {
		select {
		case <-next.C:
		case <-p.ctx.Done():
			return
		}
	}
}

// look reads the pulse and tells it if it has changed; false if nobody listens. A journal that cannot be read is read
// again at the next beat.
func (p *pulses) look() bool {
	pulse, err := p.read(p.ctx)
	p.lock.Lock()
	defer p.lock.Unlock()
	if len(p.heard) == 0 {
		p.watching = false
		return false
	}
	if err != nil || pulse == p.last {
		return true
	}
	p.last = pulse
	for news := range p.heard {
		select {
		case <-news: // an older pulse that was not written yet
		default:
		}
		news <- pulse
	}
	return true
}
