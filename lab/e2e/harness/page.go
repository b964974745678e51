package harness

import (
	"bufio"
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Serve runs `reconfigure serve` as the user of the control host until the test ends, and returns the address of the
// page. SIGINT must then end it without an error.
func (l *Lab) Serve(t *testing.T) (address string) {
	t.Helper()
	cmd := l.Reconfigure(context.Background(), "serve", "--listen", "127.0.0.1:0")
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for address == "" && lines.Scan() {
		_, address, _ = strings.Cut(lines.Text(), "the page is served: ")
	}
	ended := make(chan error)
	go func() {
		_, err := io.Copy(io.Discard, said)
		ended <- errors.Join(err, cmd.Wait())
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended, which Wait tells
		if err := <-ended; err != nil {
			t.Errorf("reconfigure serve: %v", err)
		}
	})
	if address == "" {
		t.Fatal("reconfigure serve names no address")
	}
	return "http://" + address
}

// PageText returns the text of a page on one line.
func PageText(t *testing.T, address string) string {
	t.Helper()
	answer, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", address, answer.Status, err, body)
	}
	text := html.UnescapeString(tag.ReplaceAllString(string(body), " "))
	return strings.Join(strings.Fields(text), " ")
}

var tag = regexp.MustCompile(`<[^>]*>`)
