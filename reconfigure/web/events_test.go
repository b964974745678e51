package web_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/web"
)

// TestSourcesAreAskedWhileAPageIsOpen leaves a page open while the journal does not change: the sources are asked again
// and again, and the page is told, until it is closed.
func TestSourcesAreAskedWhileAPageIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := empty(t)
		sources, asked := s.sources(), atomic.Int64{}
		sources.Ask = func(context.Context) (web.Answers, error) {
			asked.Add(1)
			return s.answers, nil
		}
		pages := web.New(t.Context(), sources).Handler()
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/events", nil)
		heard, ended := httptest.NewRecorder(), make(chan struct{})
		go func() {
			pages.ServeHTTP(heard, r)
			close(ended)
		}()
		time.Sleep(5 * time.Minute)
		cancel()
		<-ended
		if n := asked.Load(); n < 9 || n > 11 {
			t.Errorf("in five minutes the sources are asked %d times", n)
		}
		if n := strings.Count(heard.Body.String(), "data: "); n < 9 || n > 11 {
			t.Errorf("in five minutes the page is told %d times:\n%s", n, heard.Body)
		}
		time.Sleep(2 * time.Second) // the last look at the journal ends
		before := asked.Load()
		time.Sleep(5 * time.Minute)
		if n := asked.Load(); n != before {
			t.Errorf("after the page was closed, the sources are asked %d times", n-before)
		}
	})
}

// TestTheEndOfAStreamIsWritten ends the server long after the last event. Without the end of the stream, a browser
// reports an error.
func TestTheEndOfAStreamIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		server := http.Server{Handler: web.New(ctx, empty(t).sources()).Handler()}
		ours, theirs := net.Pipe()
		l := &pipeListener{conns: make(chan net.Conn, 1)}
		l.conns <- theirs
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		const request = "GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
		if _, err := io.WriteString(ours, request); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(15*time.Second, end)
		all, err := io.ReadAll(ours)
		if !strings.Contains(string(all), "data: ") || !strings.HasSuffix(string(all), "\r\n0\r\n\r\n") {
			t.Errorf("%q, %v", all, err)
		}
		close(l.conns)
		<-served
	})
}

// pipeListener accepts connections from a channel.
type pipeListener struct{ conns chan net.Conn }

func (l *pipeListener) Accept() (net.Conn, error) {
	if conn, ok := <-l.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (l *pipeListener) Close() error   { return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }
