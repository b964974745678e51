package client

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/web"
)

// TestServe serves the page of a site whose cloud and Slurm do not answer, from a real journal at a Unix socket: the
// journal is shown, the sources are named, and no file is written.
func TestServe(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("OS_CLIENT_CONFIG_FILE", "/nonexistent")
	dir := filepath.Join(t.TempDir(), "small")
	n := newSite()
	n.PublicKey = ""
	if _, err := MakeSite(dir, n); err != nil {
		t.Fatal(err)
	}
	s, err := site.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "page")
	out := slog.New(slog.NewTextHandler(io.Discard, nil))
	listen := func() net.Listener {
		t.Helper()
		l, err := web.Listen(t.Context(), socket)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if err := Serve(t.Context(), s, out, listen()); err == nil || !strings.Contains(err.Error(), "no journal yet") {
		t.Errorf("without a journal: %v", err)
	}
	log, err := s.Journal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("small001")}); err != nil {
		t.Fatal(err)
	}
	before := filesBelow(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	l := listen()
	go func() { ended <- Serve(ctx, s, out, l) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	for path, want := range map[string]string{
		"":              `<a href="./request/1">1</a>`,
		"request/1":     "Request 1",
		"node/small001": "Node small001",
		"timeline":      "No node had an instance",
		"requests":      "resume",
		"metrics":       "reconfigure_journal_up 1",
	} {
		answer, err := client.Get("http://any.example/" + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d, without %q:\n%s", path, answer.StatusCode, want, body)
		}
	}
	client.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if after := filesBelow(t, dir); !slices.Equal(before, after) {
		t.Errorf("the files were\n%v and are\n%v", before, after)
	}
}

func filesBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		files = append(files, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
