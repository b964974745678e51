package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eiffel-hpc/eiffel/reconfigure/process/listener"
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
	l, err := listener.Listen(ctx, address)
	if err != nil {
		return err
	}
	begun()
	return listener.Serve(ctx, l, h, 0)
}
