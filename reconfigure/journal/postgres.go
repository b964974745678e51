package journal

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"golang.org/x/sys/unix"
)

// A leader whose connection fails silently finds out within lookEvery and lookPatience, 8 s. The server gives it up, and its locks to somebody else, when
// deathly has passed since the last sign of life, which was at most lookEvery before: so it is the leader who knows first.
const (
	lookEvery    = 4 * time.Second
	lookPatience = 4 * time.Second
	deathly      = 20 * time.Second
)

// sessionSettings is what each connection asks of the server
// (https://www.postgresql.org/docs/current/runtime-config-client.html, -connection.html).
func sessionSettings() map[string]string {
	return map[string]string{
		"synchronous_commit":                  "on", // a database may be set to lose its last commits with the power
		"lock_timeout":                        milliseconds(patience),
		"idle_in_transaction_session_timeout": milliseconds(patience), // a process that was stopped keeps the others waiting no longer
		// A host that lost its power says no goodbye.
		"tcp_keepalives_idle":     strconv.Itoa(int(deathly.Seconds()) / 2),
		"tcp_keepalives_interval": strconv.Itoa(int(deathly.Seconds()) / 4),
		"tcp_keepalives_count":    "2",
		"tcp_user_timeout":        milliseconds(deathly),
	}
}

// The locks are advisory ones (https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS) under two numbers. The first is of the table
// of requests, so that two journals in schemas of one database are not in each other's way.
const (
	leadLock = iota + 1
	watchLock
	writeLock

	ofThisJournal = `'requests'::regclass::oid::int`
)

// postgresStore is a PostgreSQL database.
type postgresStore struct{ config *pgx.ConnConfig }

func newPostgres(url string) (postgresStore, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return postgresStore{}, err // it shows no password
	}
	for name, value := range sessionSettings() {
		config.RuntimeParams[name] = value
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = fmt.Sprintf("reconfigure[%d]", os.Getpid()) // for pg_stat_activity
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	config.DialFunc = dialer().DialContext
	return postgresStore{config}, nil
}

// dialer makes connections that fail when the other side has been silent for that long; by itself, the kernel would try for a quarter of an hour.
func dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deathly / 2, Interval: deathly / 4, Count: 2},
		Control: func(network, _ string, c syscall.RawConn) (err error) {
			if !strings.HasPrefix(network, "tcp") {
				return nil
			}
			e := c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deathly.Milliseconds()))
			})
			return errors.Join(e, err)
		},
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// name is the URL without the user's name and password.
func (s postgresStore) name() string {
	return "postgres://" + net.JoinHostPort(s.config.Host, strconv.Itoa(int(s.config.Port))) + "/" + s.config.Database
}

// open opens the database and brings its schema up to date.
func (s postgresStore) open(ctx context.Context) (*sql.DB, error) {
	// A connection is looked at before each use: the server may have been started anew meanwhile.
	always := stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return true })
	db := sql.OpenDB(patient{stdlib.GetConnector(*s.config, always)})
	// Connections are what a server runs short of when hundreds call at once; the writers wait for one another anyway.
	db.SetMaxOpenConns(1)
	if err := s.prepare(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// prepare makes the database what this version of the tool expects. It may be killed at any point and run again.
func (s postgresStore) prepare(ctx context.Context, db *sql.DB) error {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, uint64(patience/time.Second)))
	if err != nil {
		return err
	}
	p, err := migrator(goose.DialectPostgres, "postgres", db, goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	var version int64
	err = db.QueryRowContext(ctx, `SELECT max(version_id) FROM `+goose.DefaultTablename).Scan(&version)
	if err != nil && sqlState(err) != "42P01" { // there is no such table yet
		return err
	}
	if done, err := upToDate(p, version); done || err != nil {
		return err
	}
	return migrate(ctx, p)
}

// begin waits until nobody else writes, as SQLite does. So IDs are in the order of the commits: who has seen an event has seen those with lower IDs.
func (postgresStore) begin(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(`+ofThisJournal+`, $1)`, writeLock); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}

func (postgresStore) commit(tx *sql.Tx) error {
	err := tx.Commit()
	// An error without a state is not the server's answer.
	if err == nil || sqlState(err) != "" || errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUncertain, err)
}

func (postgresStore) elements() string { return "json_array_elements_text" }

func (s postgresStore) lead(ctx context.Context) (*held, error) { return s.lock(ctx, leadLock) }

func (s postgresStore) watch(ctx context.Context) (*held, error) { return s.lock(ctx, watchLock) }

// lock takes a lock on a connection of its own. It is lost with that connection.
func (s postgresStore) lock(ctx context.Context, which int) (*held, error) {
	conn, err := patiently(ctx, func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, s.config.Copy()) })
	if err != nil {
		return nil, err
	}
	var ok bool
	err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(`+ofThisJournal+`, $1)`, which).Scan(&ok)
	if err != nil || !ok {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	lasting := context.WithoutCancel(ctx)
	lock, lost := context.WithCancelCause(lasting)
	settle := look(lasting, conn, func() { lost(ErrLeaseLost) })
	return &held{lock, func() error {
		settle()
		return errors.Join(context.Cause(lock), unlock(lasting, conn, which))
	}}, nil
}

// unlock releases a lock and closes its connection. That alone would do, but the server may be slow to notice it.
func unlock(ctx context.Context, conn *pgx.Conn, which int) error {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	_, err := conn.Exec(ctx, `SELECT pg_advisory_unlock(`+ofThisJournal+`, $1)`, which)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("%w: %w", ErrLeaseLost, err) // nobody knows since when
	}
	return nil
}

// look keeps looking whether the connection is alive, until settle is called, which returns when nothing uses the connection any more.
func look(ctx context.Context, conn *pgx.Conn, lost func()) (settle func()) {
	ctx, stop := context.WithCancel(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		if !alive(ctx, conn) {
			lost()
		}
	}()
	return func() { stop(); <-looked }
}

// alive returns true when ctx ends, and false when the connection does: at once where that can be noticed, else at the next look.
func alive(ctx context.Context, conn *pgx.Conn) bool {
	for {
		pause, cancel := context.WithTimeout(ctx, lookEvery)
		_, err := conn.WaitForNotification(pause) // nobody notifies: it waits for the end of the connection
		paused := pause.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return true
		}
		if err != nil && !paused {
			return false
		}
		look, cancel := context.WithTimeout(ctx, lookPatience)
		err = conn.Ping(look)
		cancel()
		if ctx.Err() != nil {
			return true
		}
		if err != nil {
			return false
		}
	}
}

func (postgresStore) led(ctx context.Context, db *sql.DB) (led bool, err error) {
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid = 'requests'::regclass AND objid = $1)`, leadLock).Scan(&led)
	return led, err
}

// patient is a driver.Connector that does not take no for an answer from a server that will say yes soon.
type patient struct{ driver.Connector }

func (p patient) Connect(ctx context.Context) (driver.Conn, error) {
	return patiently(ctx, p.Connector.Connect)
}

// patiently connects. Where the server has no connection left, or starts up, it is tried again.
func patiently[T any](ctx context.Context, connect func(context.Context) (T, error)) (T, error) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier = 100*time.Millisecond, 1
	return backoff.Retry(ctx, func() (T, error) {
		conn, err := connect(ctx)
		switch code := sqlState(err); {
		case err == nil, code == "53300", code == "57P03": // too_many_connections, cannot_connect_now
			return conn, err
		}
		return conn, backoff.Permanent(err)
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(patience))
}

// sqlState is the code of an answer of the server's (https://www.postgresql.org/docs/current/errcodes-appendix.html); empty for other errors.
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// meaning puts the codes that an administrator can do something about into words.
func (postgresStore) meaning(err error) string {
	switch sqlState(err) {
	case "53100":
		return "the server's disk is full, nothing of it was written"
	case "25006":
		return "the database is read-only: a standby, perhaps; the URL must lead to the primary"
	case "XX001", "XX002":
		return "the database is damaged; bring it back from a backup"
	case "42501":
		return "the database lets this user not do that; the user must be the owner of the tables, or may CREATE in the schema to make them"
	case "3D000":
		return "the database is not there; make it with createdb"
	case "3F000", "42P01":
		return "the tables are not where this user looks for them; see search_path"
	case "28000", "28P01":
		return "the server does not let this user in"
	case "53300":
		return fmt.Sprintf("the server had no connection left for %s; see its max_connections", patience)
	case "55P03":
		return fmt.Sprintf("another process kept it locked for %s", patience)
	}
	return ""
}
