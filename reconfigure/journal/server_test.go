package journal

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eiffel-hpc/eiffel/lab/await"
	"github.com/eiffel-hpc/eiffel/lab/postgres"
)

// server is the test's own PostgreSQL server.
type server struct{ postgres.Server }

func startServer(t testing.TB, address ...string) server {
	t.Helper()
	return server{postgres.Start(t, address...)}
}

// database creates an empty database and returns its URL.
func (s server) database(t testing.TB) string { return s.Database(t) }

// do runs a statement as the administrator, and returns the first column of its last row.
func (s server) do(t testing.TB, url, statement string, args ...any) (value any) {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), strings.Replace(url, "user="+postgres.User, "user=postgres", 1))
	noError(t, err)
	defer admin.Close(t.Context())
	rows, err := admin.Query(t.Context(), statement, args...)
	noError(t, err)
	for rows.Next() {
		values, err := rows.Values()
		noError(t, err)
		value = values[0]
	}
	noError(t, rows.Err())
	return value
}

// eventually waits until the condition is true, for two minutes at most.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	if !await.Until(t.Context(), 2*time.Minute, is) {
		t.Fatalf("not within two minutes: %s", what)
	}
}
