package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// CheckAddress returns an error unless an address is HOST:PORT with a host of the loopback, or the absolute path of a
// Unix socket. The page has no users and no encryption: a proxy has both.
func CheckAddress(address string) error {
	if filepath.IsAbs(address) {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return fmt.Errorf("%q is neither HOST:PORT nor the absolute path of a Unix socket", address)
	}
	if !loopback(host) {
		return fmt.Errorf("%s is not an address of the loopback: listen on 127.0.0.1:%s, or on a Unix socket, and put a "+
			"proxy with a login before it (docs/guides/page.md)", host, port)
	}
	return nil
}

// loopback reports whether a host, with or without a port, is one of this computer alone.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Listen listens on an address of CheckAddress. A socket gets mode 0660: its group may read the page. A socket that a
// killed process has left is replaced.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if err := CheckAddress(address); err != nil {
		return nil, err
	}
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

// Serve serves a handler until ctx ends, and returns nil then.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
