package journal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// postgresRules are the tests of PostgreSQL alone.
func postgresRules() map[string]func(*testing.T, server) {
	return map[string]func(*testing.T, server){
		"the lease ends with its connection":                    leaseEndsWithConnection,
		"calls succeed after the server closed the connections": connectionsComeBack,
		"journals in two schemas of one database":               twoSchemas,
		"a journal of version 7 is migrated":                    version7OfPostgreSQL,
		"every commit is on the disk before it returns":         settingsApply,
		"only a commit whose answer was lost is uncertain":      commitIsUncertain,
		"a journal of a newer version is refused":               newerIsRefused,
		"errors say what an administrator can do":               errorsAreClear,
		"a wait for a lock has a limit":                         locksTimeOut,
		"a new journal begins above the numbers of a lost one": func(t *testing.T, s server) {
			beginsAbove(t, open(t, s.database(t)))
		},
	}
}

// lockHolder selects the server's process that has a lock on this journal.
const lockHolder = `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
	AND classid = 'requests'::regclass AND objid = $1`

func leaseEndsWithConnection(t *testing.T, s server) {
	url := s.database(t)
	j, other := open(t, url), open(t, url)
	r := submit(t, j, "n1")
	release, ok, err := j.Acquire(t.Context())
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	plan := begin(t, j, r)
	leased, end := j.WhileHeld(t.Context())
	defer end()

	s.do(t, url, `SELECT pg_terminate_backend(pid) FROM (`+lockHolder+`) AS holder`, leaseLock)
	eventually(t, "the holder notices it", func() bool { return leased.Err() != nil })
	if !errors.Is(context.Cause(leased), ErrLeaseLost) {
		t.Errorf("its context ended with %v", context.Cause(leased))
	}
	// though there is no successor yet
	if err := j.Record(t.Context(), event(plan, "n1", "")); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("recorded without the lease: %v", err)
	}
	var next func() error
	eventually(t, "another process has the lease", func() bool {
		next, ok, err = other.Acquire(t.Context())
		noError(t, err)
		return ok
	})
	noError(t, other.Record(t.Context(), event(plan, "n1", "")))
	if err := release(); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("released a lease that was lost: %v", err)
	}
	if _, ok, err := j.Acquire(t.Context()); ok || err != nil {
		t.Errorf("acquired a lease that is taken: %v, %v", ok, err)
	}
	noError(t, next())
}

func connectionsComeBack(t *testing.T, s server) {
	const others = `pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
	url := s.database(t)
	j := open(t, url)
	for range 3 {
		submit(t, j, "n1")
		s.do(t, url, `SELECT pg_terminate_backend(pid) FROM `+others)
		eventually(t, "the connections are gone", func() bool {
			return s.do(t, url, `SELECT count(*) FROM `+others) == int64(0)
		})
	}
	if n := len(must(j.Pending(t.Context()))(t)); n != 3 {
		t.Errorf("%d requests of 3", n)
	}
}

func twoSchemas(t *testing.T, s server) {
	url := s.database(t)
	var journals []*Journal
	for _, schema := range []string{"one", "two"} {
		s.do(t, strings.Replace(url, "user=eiffel", "user=postgres", 1),
			`CREATE SCHEMA `+schema+` AUTHORIZATION eiffel`)
		journals = append(journals, open(t, url+"&search_path="+schema))
	}
	for _, j := range journals {
		if r := submit(t, j, "n1"); r.ID != 1 {
			t.Errorf("the first request is %s", r.ID)
		}
		release, ok, err := j.Acquire(t.Context())
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		defer func() { noError(t, release()) }()
	}
}

func settingsApply(t *testing.T, s server) {
	url := s.database(t)
	s.do(t, url, `DO $$ BEGIN
		EXECUTE 'ALTER DATABASE ' || current_database() || ' SET synchronous_commit = off';
	END $$`)
	j := open(t, url)
	for setting, want := range map[string]string{
		"synchronous_commit": "on", "lock_timeout": "30s", "idle_in_transaction_session_timeout": "30s",
	} {
		var got string
		noError(t, j.db.QueryRowContext(t.Context(), `SHOW `+setting).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, not %s", setting, got, want)
		}
	}
}

// cutter forwards connections to a server's socket. It closes the client's side as soon as the client has sent the
// word, and still forwards the word.
func cutter(t *testing.T, s server, word string) (address string) {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { noError(t, listener.Close()) })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			server, err := net.Dial("unix", filepath.Join(s.Dir, ".s.PGSQL.5432"))
			if err != nil {
				t.Error(err)
				return
			}
			go func() { _, _ = io.Copy(client, server) }()
			go func() {
				defer server.Close()
				defer client.Close()
				for buffer := make([]byte, 1<<16); ; {
					n, err := client.Read(buffer)
					if err != nil {
						return
					}
					if bytes.Contains(buffer[:n], []byte(word)) {
						client.Close()
					}
					if _, err := server.Write(buffer[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func commitIsUncertain(t *testing.T, s server) {
	for _, c := range []struct {
		word      string
		uncertain bool
		kept      int
	}{{"\x0bcommit\x00", true, 1}, {"INSERT INTO requests", false, 0}} {
		url := s.database(t)
		direct := open(t, url)
		_, rest, _ := strings.Cut(url, "///")
		name, _, _ := strings.Cut(rest, "?")
		j := open(t, fmt.Sprintf("postgres://eiffel@%s/%s?sslmode=disable", cutter(t, s, c.word), name))
		_, err := j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("n1")})
		if err == nil || errors.Is(err, ErrUncertain) != c.uncertain {
			t.Errorf("cut at %q: %v", c.word, err)
		}
		eventually(t, "the server has ended the transaction", func() bool {
			return s.do(t, url, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'`) == int64(0)
		})
		if n := len(must(direct.Pending(t.Context()))(t)); n != c.kept {
			t.Errorf("cut at %q: %d requests are kept, not %d", c.word, n, c.kept)
		}
	}
}

func newerIsRefused(t *testing.T, s server) {
	url := s.database(t)
	if schema, err := SchemaOfURL(t.Context(), url); err != nil || schema.Version != 0 || schema.Newest < 13 {
		t.Errorf("an empty database has the schema %+v (%v)", schema, err)
	}
	open(t, url)
	if schema, err := SchemaOfURL(t.Context(), url); err != nil || schema.Version != schema.Newest {
		t.Errorf("a new journal has the schema %+v (%v)", schema, err)
	}
	s.do(t, url, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)`)
	_, err := OpenURL(t.Context(), url)
	wants(t, err, "version 99", "newer")
	_, err = SchemaOfURL(t.Context(), url)
	wants(t, err, "version 99", "newer")
}

func errorsAreClear(t *testing.T, s server) {
	_, err := OpenURL(t.Context(), s.URL("nowhere", "eiffel"))
	wants(t, err, "open", "does not exist", "createdb", "nowhere")

	_, err = OpenURL(t.Context(), s.URL("postgres", "stranger"))
	wants(t, err, "refuses this user", "stranger")

	url := s.database(t)
	s.do(t, url, `CREATE ROLE guest LOGIN`)
	_, err = OpenURL(t.Context(), strings.Replace(url, "user=eiffel", "user=guest", 1))
	wants(t, err, "this user lacks the permission")

	for _, bad := range []string{
		"postgres://anna:secret@127.0.0.1:1/journal?sslmode=disable", "postgres://anna:secret@127.0.0.1:port/journal",
		"mysql://anna:secret@x/y",
	} {
		_, err := OpenURL(t.Context(), bad)
		wants(t, err, "journal")
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("the error contains the password: %v", err)
		}
	}

	j := open(t, url)
	s.do(t, url, `DO $$ BEGIN
		EXECUTE 'ALTER DATABASE ' || current_database() || ' SET default_transaction_read_only = on';
	END $$`)
	_, err = open(t, url).Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Resume})
	wants(t, err, "submit", "read-only", "primary")
	if n := len(must(j.Pending(t.Context()))(t)); n != 0 {
		t.Errorf("%d were written", n)
	}
}

func locksTimeOut(t *testing.T, s server) {
	url := s.database(t)
	locking := open(t, url)
	store := must(newPostgres(url))(t)
	store.config.RuntimeParams["lock_timeout"] = "1"
	hasty := &Journal{db: must(store.open(t.Context()))(t), store: store, name: store.name()}
	defer hasty.Close()
	noError(t, locking.write(t.Context(), "keep it locked", func(*sql.Tx) error {
		_, err := hasty.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Resume})
		wants(t, err, "submit", "kept it locked")
		return nil
	}))
	submit(t, hasty, "n1")
}

// The network drops all packets silently.
func TestTheHolderNoticesASilentNetworkBeforeTheServer(t *testing.T) {
	if !apart(t, unix.CLONE_NEWNET) {
		return
	}
	network := must(netlink.LinkByName("lo"))(t)
	noError(t, netlink.LinkSetUp(network))
	s := startServer(t, "127.0.0.1")
	url := strings.Replace(s.database(t), "host="+s.Dir, "host=127.0.0.1", 1) + "&sslmode=disable"
	bySocket := strings.Replace(url, "host=127.0.0.1", "host="+s.Dir, 1)
	j := open(t, url)
	r := submit(t, j, "n1")
	release, ok, err := j.Acquire(t.Context())
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	plan := begin(t, j, r)
	leased, end := j.WhileHeld(t.Context())
	defer end()

	noError(t, netlink.LinkSetDown(network))
	cut := time.Now()
	recorded := make(chan error)
	go func() { recorded <- j.Record(t.Context(), event(plan, "n1", "")) }()
	eventually(t, "the holder notices it", func() bool { return leased.Err() != nil })
	t.Logf("the holder noticed it after %s", time.Since(cut))
	if locks := s.do(t, bySocket, `SELECT count(*) FROM (`+lockHolder+`) AS holder`, leaseLock); locks != int64(1) {
		t.Errorf("the server noticed it before the holder")
	}
	eventually(t, "the server closes its connection", func() bool {
		return s.do(t, bySocket, `SELECT count(*) FROM (`+lockHolder+`) AS holder`, leaseLock) == int64(0)
	})
	t.Logf("the server noticed it after %s", time.Since(cut))
	if err := <-recorded; err == nil {
		t.Error("recorded through a network that is down")
	}
	t.Logf("the write failed after %s", time.Since(cut))
	if err := release(); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("released: %v", err)
	}
	next, ok, err := open(t, bySocket).Acquire(t.Context())
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	noError(t, next())
}

func TestAFullDiskOfTheServerIsAClearErrorAndWritesNothingHalf(t *testing.T) {
	disk, here := tmpfs(t, "16m")
	if !here {
		return
	}
	noError(t, os.Chmod(filepath.Dir(disk), 0o755))
	folder := filepath.Join(disk, "small")
	noError(t, os.Mkdir(folder, 0o700))
	noError(t, os.Chown(folder, 65534, 65534)) // nobody
	s := startServer(t)
	url := s.URL("full", "eiffel")
	s.do(t, s.URL("postgres", "eiffel"), `CREATE TABLESPACE small OWNER eiffel LOCATION '`+folder+`'`)
	s.do(t, s.URL("postgres", "eiffel"), `CREATE DATABASE "full" OWNER eiffel TABLESPACE small`)
	ballast := filepath.Join(disk, "ballast")
	noError(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600))
	j := open(t, url)
	r := submit(t, j, "n1")
	many := eventsOf(begin(t, j, r), 500)
	recorded := 0
	for {
		if err := j.Record(t.Context(), many...); err != nil {
			wants(t, err, "record", "the server's disk is full")
			break
		}
		recorded += len(many)
	}
	var kept int
	noError(t, j.db.QueryRowContext(t.Context(), `SELECT count(*) FROM events`).Scan(&kept))
	if kept != recorded || recorded == 0 {
		t.Errorf("%d events are kept of %d", kept, recorded)
	}
	noError(t, os.Remove(ballast))
	noError(t, j.Record(t.Context(), many[:1]...))
}
