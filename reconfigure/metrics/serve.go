package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// again is the interval at which a taken address is tried again: another worker of this host may end.
const again = 10 * time.Second

// Handler serves the metrics at /metrics.
func Handler(c *Collector) http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return mux
}

// Serve serves a handler on an address, HOST:PORT or the absolute path of a Unix socket, until ctx ends. An address
// that cannot be used is logged and tried again: nothing else depends on it.
func Serve(ctx context.Context, address string, h http.Handler, log *slog.Logger) {
	said := ""
	for ctx.Err() == nil {
		err := serve(ctx, address, h, func() { said = "" })
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			log.WarnContext(ctx, "the metrics are not served: free the address, or declare another reconfigure.metrics; "+
				"the worker works on", "address", address, "reason", said)
		}
		_ = sleep.For(ctx, again)
	}
}

func serve(ctx context.Context, address string, h http.Handler, begun func()) error {
	l, err := listen(ctx, address)
	if err != nil {
		return err
	}
	begun()
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	if !filepath.IsAbs(address) {
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	// A killed worker leaves its socket. One that answers belongs to another worker.
	if conn, err := new(net.Dialer).DialContext(ctx, "unix", address); err == nil {
		return nil, errors.Join(errors.New("another process listens at this socket"), conn.Close())
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
