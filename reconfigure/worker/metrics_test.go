package worker

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// logged is a log that a goroutine writes and another one reads.
type logged struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.String()
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

func exporting(t *testing.T, address string) (s site.Site, log *journal.Journal) {
	t.Helper()
	s = site.Site{Dir: t.TempDir()}
	s.Cluster.Settings.StateDir, s.Cluster.Settings.Metrics = s.File("state"), address
	log, err := journal.Open(t.Context(), s.StateFile())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return s, log
}

// TestAWorkerExportsMetrics scrapes a real journal over a Unix socket. The socket of a killed worker is in the way.
func TestAWorkerExportsMetrics(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "metrics")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	_ = left.Close()
	s, log := exporting(t, socket)
	request := reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("n1")}
	if _, err := log.Submit(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	end := export(t.Context(), s, log, func() int64 { return 7 }, nil, slog.New(slog.DiscardHandler))
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	var page string
	until(t, "it answers", func() bool {
		answer, err := client.Get("http://metrics/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		page = string(text)
		return err == nil && answer.StatusCode == http.StatusOK
	})
	for _, line := range []string{
		`reconfigure_requests_open{mode="resume"} 1`, `reconfigure_events_lost_total 7`, `reconfigure_journal_up 1`,
		`reconfigure_compared_timestamp_seconds 0`, `reconfigure_lease_held 0`,
	} {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("%q is missing in\n%s", line, page)
		}
	}
	end()
	if _, err := net.Dial("unix", socket); err == nil {
		t.Error("it still answers")
	}
}

// TestATakenAddressIsSaidOnce takes the port; the metrics come when it is free.
func TestATakenAddressIsSaidOnce(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, log := exporting(t, taken.Addr().String())
	var out logged
	synctest.Test(t, func(t *testing.T) {
		end := export(t.Context(), s, log, func() int64 { return 0 }, nil, slog.New(slog.NewTextHandler(&out, nil)))
		time.Sleep(time.Minute)
		synctest.Wait()
		said := out.String()
		if strings.Count(said, "\n") != 1 || !strings.Contains(said, "address already in use") ||
			!strings.Contains(said, "the worker works on") {
			t.Errorf("the log has %q", said)
		}
		end()
	})
}
