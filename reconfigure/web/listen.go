package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/process/listener"
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

// Listen listens on an address of CheckAddress. See [listener.Listen].
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if err := CheckAddress(address); err != nil {
		return nil, err
	}
	return listener.Listen(ctx, address)
}

// Serve serves a handler until ctx ends, and returns nil then.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return listener.Serve(ctx, l, h, 2*time.Minute)
}
