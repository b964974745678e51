package web_test

import (
	"context"
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
