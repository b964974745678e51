// Package listener serves HTTP on a TCP port or a Unix socket. The metrics and the page are served by it.
package listener

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Listen listens on HOST:PORT or the absolute path of a Unix socket. A socket gets mode 0660: its group may use it. A
// socket that a killed process has left is replaced; one that answers belongs to another process.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if !filepath.IsAbs(address) {
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	if conn, err := new(net.Dialer).DialContext(ctx, "unix", address); err == nil {
		return nil, errors.Join(fmt.Errorf("another process listens at %s", address), conn.Close())
	}
	if info, err := os.Lstat(address); err == nil && info.Mode().Type() == os.ModeSocket {
		if err := os.Remove(address); err != nil {
			return nil, err
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", address)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(address, 0o660); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Serve serves a handler until ctx ends, and returns nil then. A connection without a request is closed after idle; 0:
// after 10 seconds.
func Serve(ctx context.Context, l net.Listener, h http.Handler, idle time.Duration) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: idle, MaxHeaderBytes: 16 << 10,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
