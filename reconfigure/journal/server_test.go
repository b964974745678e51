package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is a PostgreSQL server of the test's own. Its folder holds the data and the socket.
type server struct {
	dir    string
	keeper io.Writer // ends the server at the first line, starts it anew at the next one, and so on
}

// toggle ends the server, as a restart of it does, or starts it anew.
func (s server) toggle(t testing.TB) {
	t.Helper()
	must(io.WriteString(s.keeper, "\n"))(t)
}

// startServer starts one. A process of its own keeps it, and ends it and removes its folder when standard input ends: when the test is over, and also when
// it panics or is killed.
//
// It listens on its socket alone, or at an address besides.
func startServer(t testing.TB, address ...string) server {
	t.Helper()
	dir, err := os.MkdirTemp("", "eiffel-pg-") // a socket's path must be short
	noError(t, err)
	keeper := exec.Command(os.Args[0], dir)
	keeper.Env = append(os.Environ(), partVariable+"=keep a server:"+strings.Join(address, ""), "LC_ALL=C")
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no Ctrl-C may end it before the server
	var said strings.Builder
	keeper.Stdout, keeper.Stderr = &said, &said
	stdin, err := keeper.StdinPipe()
	noError(t, err)
	noError(t, keeper.Start())
	ended := make(chan error, 1)
	go func() { ended <- keeper.Wait() }()
	t.Cleanup(func() {
		_ = stdin.Close() // if it has ended, that is said below
		if err := <-ended; err != nil {
			t.Errorf("the server: %v\n%s", err, said.String())
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	})
	s := server{dir, stdin}
	eventually(t, "the server answers", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatal("the server has ended")
		default:
		}
		admin, err := pgx.Connect(t.Context(), s.url("postgres", "postgres"))
		if err != nil {
			return false
		}
		_, err = admin.Exec(t.Context(), `CREATE ROLE eiffel LOGIN CREATEDB`)
		noError(t, errors.Join(err, admin.Close(t.Context())))
		return true
	})
	return s
}

// url leads to a database as that user.
func (s server) url(database, user string) string {
	return fmt.Sprintf("postgres:///%s?host=%s&user=%s", database, s.dir, user)
}

// database makes an empty database and gives its URL.
func (s server) database(t testing.TB) string {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), s.url("postgres", "eiffel"))
	noError(t, err)
	name := fmt.Sprint("journal", time.Now().UnixNano())
	_, err = admin.Exec(t.Context(), `CREATE DATABASE `+name)
	noError(t, errors.Join(err, admin.Close(t.Context())))
	return s.url(name, "eiffel")
}

// do runs a statement as the administrator, and gives the first value of its first row.
func (s server) do(t testing.TB, url, statement string, args ...any) (value any) {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), strings.Replace(url, "user=eiffel", "user=postgres", 1))
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

// keepServer runs a server in the folder, which listens at the address, until standard input ends.
func keepServer(dir, address string) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data := filepath.Join(dir, "data")
	initdb, err := program(dir, "initdb", "--pgdata="+data, "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
	if err != nil {
		return err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", initdb, err, out)
	}
	for lines := bufio.NewScanner(os.Stdin); ; {
		// Fewer connections than there are callers in these tests.
		postgres, err := program(dir, "postgres", "-D", data, "-k", dir, "-c", "listen_addresses="+address, "-c", "max_connections=30")
		if err != nil {
			return err
		}
		postgres.Stdout, postgres.Stderr = os.Stdout, os.Stderr
		if err := postgres.Start(); err != nil {
			return err
		}
		restarts := lines.Scan()
		end := syscall.SIGQUIT // at once
		if restarts {
			end = syscall.SIGINT // as `systemctl restart` does: whoever is connected is cut off
		}
		err = postgres.Process.Signal(end)
		var exit *exec.ExitError
		if e := postgres.Wait(); !errors.As(e, &exit) {
			err = errors.Join(err, e)
		}
		if !restarts || err != nil || !lines.Scan() {
			return err
		}
	}
}

// program is one of PostgreSQL's, which refuse to run as root: nobody runs it then, in a folder that becomes theirs.
func program(dir, name string, args ...string) (*exec.Cmd, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // where Debian has it; the pattern is a good one
		if len(all) == 0 {
			return nil, fmt.Errorf("%w; install Debian's postgresql", err)
		}
		path = slices.Max(all)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() != 0 {
		return cmd, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(nobody.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(nobody.Gid)
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return cmd, os.Chown(dir, uid, gid)
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
