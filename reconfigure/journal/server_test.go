package journal

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eiffel-hpc/eiffel/lab/postgres"
)

// server is a PostgreSQL server of the test's own.
type server struct{ postgres.Server }

func startServer(t testing.TB, address ...string) server {
	t.Helper()
	return server{postgres.Start(t, address...)}
}

// database makes an empty database and gives its URL.
func (s server) database(t testing.TB) string { return s.Database(t) }

// do runs a statement as the administrator, and gives the first value of its first row.
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

// eventually waits until something is so.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in two minutes: %s", what)
		}
	}
}
