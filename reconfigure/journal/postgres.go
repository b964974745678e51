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
	gooselock "github.com/pressly/goose/v3/lock"
	"golang.org/x/sys/unix"
)

// When the connection of the lease's holder fails silently, the holder notices it within pingEvery + pingTimeout, 8 s.
// The server closes the connection and frees its locks deadAfter after the last packet, which came at most pingEvery
// before the failure. So the holder notices it first.
const (
	pingEvery   = 4 * time.Second
	pingTimeout = 4 * time.Second
	deadAfter   = 20 * time.Second
)

// sessionSettings are the server's parameters for each connection
// (https://www.postgresql.org/docs/current/runtime-config-client.html, -connection.html).
func sessionSettings() map[string]string {
	return map[string]string{
		"synchronous_commit":                  "on", // off would lose the last commits in a crash
		"lock_timeout":                        milliseconds(retryFor),
		"idle_in_transaction_session_timeout": milliseconds(retryFor), // ends the transaction of a stopped process
		// A host that loses power does not close its connections.
		"tcp_keepalives_idle":     strconv.Itoa(int(deadAfter.Seconds()) / 2),
		"tcp_keepalives_interval": strconv.Itoa(int(deadAfter.Seconds()) / 4),
		"tcp_keepalives_count":    "2",
		"tcp_user_timeout":        milliseconds(deadAfter),
	}
}

// The locks are advisory locks (https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS) with two
// numbers as the key. The first is the OID of the table of requests, so that two journals in schemas of one database do
// not block each other. The second is the same as in earlier versions, since processes of such a version may still run.
const (
	leaseLock = 1
	writeLock = 3

	ofThisJournal = `'requests'::regclass::oid::int`
)

// postgresStore is a PostgreSQL database.
type postgresStore struct{ config *pgx.ConnConfig }

func newPostgres(url string) (postgresStore, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return postgresStore{}, err // it does not contain the password
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

// dialer makes connections that fail when the server has sent nothing for deadAfter. The kernel's default is about 15
// minutes.
func dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadAfter / 2, Interval: deadAfter / 4, Count: 2},
		Control: func(network, _ string, c syscall.RawConn) (err error) {
			if !strings.HasPrefix(network, "tcp") {
				return nil
			}
			e := c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
					int(deadAfter.Milliseconds()))
			})
			return errors.Join(e, err)
		},
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// name returns the URL without user and password.
func (s postgresStore) name() string {
	return "postgres://" + net.JoinHostPort(s.config.Host, strconv.Itoa(int(s.config.Port))) + "/" + s.config.Database
}

// open opens the database and brings its schema up to date.
func (s postgresStore) open(ctx context.Context) (*sql.DB, error) {
	db := s.connect()
	if err := s.prepare(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// connect returns the database as it is. It connects at the first use.
func (s postgresStore) connect() *sql.DB {
	// A connection is tested before each use, since the server may have been restarted.
	always := stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return true })
	db := sql.OpenDB(retrying{stdlib.GetConnector(*s.config, always)})
	// Hundreds of processes may call at the same time and use up the server's connections. More than one connection
	// would not help, since writers wait for each other.
	db.SetMaxOpenConns(1)
	return db
}

// postgresVersion returns the version of the schema; 0 for a new database.
func postgresVersion(ctx context.Context, db *sql.DB) (version int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT max(version_id) FROM `+goose.DefaultTablename).Scan(&version)
	if err != nil && sqlState(err) == "42P01" { // undefined_table
		return 0, nil
	}
	return version, err
}

// prepare migrates the database to this version. It may be killed at any point and run again.
func (s postgresStore) prepare(ctx context.Context, db *sql.DB) error {
	locker, err := gooselock.NewPostgresSessionLocker(gooselock.WithLockTimeout(1, uint64(retryFor/time.Second)))
	if err != nil {
		return err
	}
	p, err := migrator(goose.DialectPostgres, "postgres", db, goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	version, err := postgresVersion(ctx, db)
	if err != nil {
		return err
	}
	if done, err := (Schema{Version: version, Newest: newestOf(p)}).upToDate(); done || err != nil {
		return err
	}
	return migrate(ctx, p)
}

// begin waits for the end of other transactions, as SQLite does. So IDs are in the order of the commits: a process that
// has seen an event has seen those with lower IDs.
func (postgresStore) begin(ctx context.Context, db *sql.DB) (tx *sql.Tx, end func(), err error) {
	tx, err = db.BeginTx(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(`+ofThisJournal+`, $1)`, writeLock); err != nil {
		return nil, nil, errors.Join(err, tx.Rollback())
	}
	return tx, func() {}, nil
}

func (postgresStore) commit(tx *sql.Tx) error {
	err := tx.Commit()
	// An error without a state is not from the server.
	if err == nil || sqlState(err) != "" || errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUncertain, err)
}

func (postgresStore) elements() string { return "json_array_elements_text" }

func (postgresStore) size() string { return `SELECT pg_database_size(current_database())` }

// lock takes the lock on a separate connection, and loses it with that connection.
func (s postgresStore) lock(ctx context.Context) (*lock, error) {
	conn, err := retryConnect(ctx, func(ctx context.Context) (*pgx.Conn, error) {
		return pgx.ConnectConfig(ctx, s.config.Copy())
	})
	if err != nil {
		return nil, err
	}
	var ok bool
	err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(`+ofThisJournal+`, $1)`, leaseLock).Scan(&ok)
	if err != nil || !ok {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	lasting := context.WithoutCancel(ctx)
	connected, lost := context.WithCancelCause(lasting)
	stop := watch(lasting, conn, func() { lost(ErrLeaseLost) })
	return &lock{connected, func() error {
		stop()
		return errors.Join(context.Cause(connected), unlock(lasting, conn))
	}}, nil
}

// unlock releases the lock and closes its connection. Closing it would suffice, but the server may notice that late.
func unlock(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, `SELECT pg_advisory_unlock(`+ofThisJournal+`, $1)`, leaseLock)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("%w: %w", ErrLeaseLost, err) // the lock may have been lost long ago
	}
	return nil
}

// watch calls lost when the connection fails. stop ends it, and returns when it no longer uses the connection.
func watch(ctx context.Context, conn *pgx.Conn, lost func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if !alive(ctx, conn) {
			lost()
		}
	}()
	return func() { cancel(); <-ended }
}

// alive returns true when ctx ends, and false when the connection fails: at once when it is closed, else after the next
// ping.
func alive(ctx context.Context, conn *pgx.Conn) bool {
	for {
		pause, cancel := context.WithTimeout(ctx, pingEvery)
		_, err := conn.WaitForNotification(pause) // there are no notifications: this waits until the connection ends
		paused := pause.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return true
		}
		if err != nil && !paused {
			return false
		}
		ping, cancel := context.WithTimeout(ctx, pingTimeout)
		err = conn.Ping(ping)
		cancel()
		if ctx.Err() != nil {
			return true
		}
		if err != nil {
			return false
		}
	}
}

func (postgresStore) locked(ctx context.Context, db *sql.DB) (locked bool, err error) {
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND classid = 'requests'::regclass AND objid = $1)`, leaseLock).Scan(&locked)
	return locked, err
}

// retrying is a driver.Connector that connects by retryConnect.
type retrying struct{ driver.Connector }

func (r retrying) Connect(ctx context.Context) (driver.Conn, error) {
	return retryConnect(ctx, r.Connector.Connect)
}

// retryConnect connects, and retries while the server has no free connection or is starting.
func retryConnect[T any](ctx context.Context, connect func(context.Context) (T, error)) (T, error) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier = 100*time.Millisecond, 1
	return backoff.Retry(ctx, func() (T, error) {
		conn, err := connect(ctx)
		switch code := sqlState(err); {
		case err == nil, code == "53300", code == "57P03": // too_many_connections, cannot_connect_now
			return conn, err
		}
		return conn, backoff.Permanent(err)
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(retryFor))
}

// sqlState returns the code of an error of the server (https://www.postgresql.org/docs/current/errcodes-appendix.html);
// empty for other errors.
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// meaning returns what an administrator can do about a code.
func (postgresStore) meaning(err error) string {
	switch sqlState(err) {
	case "53100":
		return "the server's disk is full, nothing was written"
	case "25006":
		return "the database is read-only; if it is a standby, use the URL of the primary"
	case "XX001", "XX002":
		return "the database is damaged; restore it from a backup"
	case "42501":
		return "this user lacks the permission; the user must own the tables, or have CREATE on " +
			"the schema to create them"
	case "3D000":
		return "the database does not exist; create it with createdb"
	case "3F000", "42P01":
		return "the tables are not on the search_path of this user"
	case "28000", "28P01":
		return "the server refuses this user"
	case "53300":
		return fmt.Sprintf("the server had no free connection for %s; raise its max_connections", retryFor)
	case "55P03":
		return fmt.Sprintf("another process kept it locked for %s", retryFor)
	}
	return ""
}
