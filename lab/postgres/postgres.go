// Package postgres runs Debian's PostgreSQL for a test: the server has its data and socket in a temporary folder, which
// is removed when the test ends or is killed.
package postgres

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

	"github.com/eiffel-hpc/eiffel/lab/await"
	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// User is the role that may create databases. No role needs a password.
const User = "eiffel"

// patience is how long a server may take to start or to stop.
const patience = 2 * time.Minute

// keeperVariable, in the environment, makes the test binary run a server. Its value is the address to listen at.
const keeperVariable = "EIFFEL_LAB_POSTGRES"

// Server is a running server. Its folder has the data and the socket.
type Server struct {
	Dir    string
	keeper io.Writer // the first line stops the server, the next starts it again, and so on
}

// Stop stops the server, as a restart does. When it returns, all connections are closed and new ones are refused.
func (s Server) Stop(t testing.TB) {
	t.Helper()
	_, err := io.WriteString(s.keeper, "\n")
	check(t, err)
	lock := filepath.Join(s.Dir, "data", "postmaster.pid") // the server removes it last
	until(t, "stop", func() bool { _, err := os.Stat(lock); return errors.Is(err, os.ErrNotExist) })
}

// Restart starts a server that was stopped. When it returns, the server answers.
func (s Server) Restart(t testing.TB) {
	t.Helper()
	_, err := io.WriteString(s.keeper, "\n")
	check(t, err)
	until(t, "answer", func() bool {
		c, err := pgx.Connect(t.Context(), s.URL("postgres", User))
		if err == nil {
			check(t, c.Close(t.Context()))
		}
		return err == nil
	})
}

// KeepIfAsked does not return in a process that Start started to run a server. TestMain MUST call it first.
func KeepIfAsked() {
	address, asked := os.LookupEnv(keeperVariable)
	if !asked {
		return
	}
	if err := keep(os.Args[1], address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Start starts a server in another process, which stops the server and removes its folder when its standard input ends:
// that is, when the test ends, panics or is killed.
//
// The server listens on its socket, and on the address if it is not empty.
func Start(t testing.TB, address ...string) Server {
	t.Helper()
	needs.Lab(t)
	// A socket's path must be short, and the control hosts of labs cannot access this computer's /tmp.
	dir, err := os.MkdirTemp("/var/tmp", "eiffel-pg-")
	check(t, err)
	keeper := exec.Command(os.Args[0], dir)
	keeper.Env = append(os.Environ(), keeperVariable+"="+strings.Join(address, ""), "LC_ALL=C")
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // so that Ctrl-C does not end it before the server
	var said strings.Builder
	keeper.Stdout, keeper.Stderr = &said, &said
	stdin, err := keeper.StdinPipe()
	check(t, err)
	check(t, keeper.Start())
	ended := make(chan error, 1)
	go func() { ended <- keeper.Wait() }()
	t.Cleanup(func() {
		_ = stdin.Close() // if it ends before, the error is reported below
		if err := <-ended; err != nil {
			t.Errorf("the server: %v\n%s", err, said.String())
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	})
	s := Server{dir, stdin}
	until(t, "answer", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatal("the server has ended")
		default:
		}
		return s.answers(t)
	})
	return s
}

// until waits until the server satisfies a condition.
func until(t testing.TB, what string, does func() bool) {
	t.Helper()
	if !await.Until(t.Context(), patience, does) {
		t.Fatalf("the server does not %s in %s", what, patience)
	}
}

// answers reports whether the server answers, and creates the user as soon as it does.
func (s Server) answers(t testing.TB) bool {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), s.URL("postgres", "postgres"))
	if err != nil {
		return false
	}
	_, err = admin.Exec(t.Context(), `CREATE ROLE `+User+` LOGIN CREATEDB`)
	check(t, errors.Join(err, admin.Close(t.Context())))
	return true
}

// URL returns the URL of a database for that user.
func (s Server) URL(database, user string) string {
	return fmt.Sprintf("postgres:///%s?host=%s&user=%s", database, s.Dir, user)
}

// Database creates an empty database of User and returns its URL.
func (s Server) Database(t testing.TB) string {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), s.URL("postgres", User))
	check(t, err)
	name := fmt.Sprint("eiffel", time.Now().UnixNano())
	_, err = admin.Exec(t.Context(), `CREATE DATABASE `+name)
	check(t, errors.Join(err, admin.Close(t.Context())))
	return s.URL(name, User)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keep runs a server in the folder, listening on the address, until standard input ends.
func keep(dir, address string) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data := filepath.Join(dir, "data")
	initdb, err := program(dir, "initdb", "--pgdata="+data, "--username=postgres", "--auth=trust", "--encoding=UTF8",
		"--no-locale", "--no-sync")
	if err != nil {
		return err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", initdb, err, out)
	}
	for lines := bufio.NewScanner(os.Stdin); ; {
		// Some tests have more callers than there are connections.
		postgres, err := program(dir, "postgres", "-D", data, "-k", dir, "-c", "listen_addresses="+address,
			"-c", "max_connections=30")
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
			end = syscall.SIGINT // as `systemctl restart` does: it closes all connections
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

// program returns a command of PostgreSQL. PostgreSQL refuses to run as root; as root, the command runs as the user
// nobody, who becomes the owner of the folder.
func program(dir, name string, args ...string) (*exec.Cmd, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // Debian's folder; the pattern is valid
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
