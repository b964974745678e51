// Command alltests runs every test of this checkout, and writes the events of `go test -json` to its output, for
// gotestsum. It runs several `go test` in parallel, since each uses the race detector for all of its packages or for
// none.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// longTests run without the race detector. The tests of cmd/reconfigure start many processes, with real Terraform, or
// compile the program: the race detector checks only one process, and slows each down. It makes SQLite, which is
// translated to Go, twenty times slower; the tests of the journal in PostgreSQL run the same code with the race
// detector. The crash walk runs the same code as the storms. The controller's tests of long outages simulate days with
// ten looks per second; its other tests run the same code with the race detector. The test of the alerts simulates a
// week.
const longTests = "^(TestScripts|TestTwoHundredCall.*|TestAHost.*|TestHostileCallers|TestTheBuildIsReproducible|" +
	"Test.*InABrowser|TestPagesOfManyNodesAreSmall|" +
	"TestTheJournalInMemoryAgreesWithTheRealOne|TestSQLite|TestAKilledMigrationIsContinued|" +
	"TestEachAlertFiresOnItsSceneOnly|TestCrashWalk.*|TestACampaignSurvivesEachKill|" +
	"TestNoRequestIsLostByOutagesAndPauses|TestASuspendWaitsUntilSlurmAnswersAgain|TestEachModeIsRetriedForItsOwnTime)$"

// driverTests are the tests of reconfigure/terraform in which goroutines share memory. They run with the race detector.
// The others run without it: it would take most of the CPU time of their process, beside those of Terraform.
const driverTests = "^(TestDriverIsAProvisioner|Test.*Interrupt.*|Test.*Killed.*|TestCancelled.*|TestLocked.*|" +
	"TestPostgreSQLs.*|TestRelay.*|TestALauncher.*|TestAStateThatIsBeingWritten.*)$"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &lines{out: os.Stdout}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, events *lines) error {
	packages, err := list(ctx)
	if err != nil {
		return err
	}
	installed, err := tools.Find(".")
	if err != nil {
		return err
	}
	temporary, err := makeTemporary()
	if err != nil {
		return err
	}
	// Linking takes seconds, and each lab needs the program.
	program := filepath.Join(temporary, "reconfigure")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/reconfigure")
	if out, err := build.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w\n%s", build, err, out), os.RemoveAll(temporary))
	}
	// Go's collector runs less often: memory is left, CPU time is not.
	err = errors.Join(os.Setenv(cluster.ProgramVariable, program), os.Setenv("GOGC", "400"),
		os.Setenv("PATH", installed.QuickAnsible+":"+os.Getenv("PATH")))
	if err != nil {
		return errors.Join(err, os.RemoveAll(temporary))
	}
	// Other targets of make run these labs. Here, all of their tests would be skipped after seconds of linking.
	take(&packages, "/e2e/appliance", "/e2e/attachtutorial", "/e2e/clouds", "/e2e/elsewhere", "/e2e/libvirt",
		"/e2e/upgrade", "/e2e/vsphere")
	// `go test` starts packages in the order of its arguments: the longest ones first, so that none runs alone at the end.
	// The machine of Debian 12 waits most, and uses the least CPU of them.
	labs := take(&packages, "/e2e/bookworm", "/eiffel/ansible", "/e2e/grow", "/e2e/resize", "/e2e/update",
		"/e2e/failure", "/e2e/loss", "/e2e/security", "/e2e/trixie", "/e2e/attach", "/e2e/hosts", "/e2e/release",
		"/lab/e2e/")
	partly := take(&packages, "/cmd/reconfigure", "/reconfigure/journal", "/reconfigure/controller",
		"/reconfigure/metrics", "/reconfigure/web")
	storms := take(&packages, "/reconfigure/simulate/storm") // a few of them also run with the race detector
	// These packages start no goroutines, or none that share memory, so they have no data races.
	plain := take(&packages, "/slurmscripts", "/lab/image", "/lab/tools", "/bench", "/campaign", "/check", "/config",
		"/gate", "/logfile", "/nodeset", "/plan", "/slurmconf", "/status", "/text", "/usage")
	driver := take(&packages, "/reconfigure/terraform")
	long := take(&packages, "/lab/machine", "/lab/labcloud")
	raced := slices.Concat(long, partly, storms, packages)

	// Labs wait more than half of their time, so most of them run in parallel with each other and with the rest, which
	// uses the CPU that they leave: the labs take longest, and wait for real timeouts.
	var group sync.WaitGroup
	errs := make([]error, 4)
	group.Go(func() { errs[0] = test(ctx, events, labs, 0, "-p", "7", "-parallel", "3") })
	group.Go(func() {
		errs[1] = errors.Join(
			test(ctx, events, partly, behindLabs, "-run", longTests),
			test(ctx, events, append(storms, plain...), behindLabs, "-p", "1"))
	})
	group.Go(func() {
		errs[2] = errors.Join(
			test(ctx, events, driver, behindLabs, "-race", "-run", driverTests),
			test(ctx, events, raced, behindLabs, "-p", "2", "-race", "-skip", longTests))
	})
	group.Go(func() { errs[3] = test(ctx, events, driver, behindLabs, "-skip", driverTests) })
	group.Wait()
	return errors.Join(append(errs, os.Remove(program), removeTemporary(temporary))...)
}

// makeTemporary makes the folder for temporary files of all tests and of the programs that they start.
func makeTemporary() (string, error) {
	dir, err := os.MkdirTemp("", "t") // short, since the paths of sockets have at most 107 bytes (unix(7))
	if err != nil {
		return "", err
	}
	// Like /tmp, it holds files of programs of other users.
	return dir, errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Setenv("TMPDIR", dir))
}

// removeTemporary removes the folder, and lists the files that the tests have left there: those of killed programs, or
// of a test that does not clean up. It also removes the empty folders that Ansible makes in the home for tasks on this
// computer.
func removeTemporary(dir string) error {
	left, err := os.ReadDir(dir)
	for _, file := range left {
		// gotestsum counts other lines on standard output as errors.
		fmt.Fprintln(os.Stderr, "warning: removed what a test has left:", filepath.Join(dir, file.Name()))
	}
	for _, made := range []string{".ansible/tmp", ".ansible"} {
		_ = os.Remove(filepath.Join(os.Getenv("HOME"), made)) // it stays if it holds files of others
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// list returns the packages of the checkout that have tests.
func list(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}",
		"./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.Fields(string(out)), nil
}

// take removes the packages whose paths contain one of the parts, and returns them in the order of the parts.
func take(packages *[]string, parts ...string) (taken []string) {
	for _, part := range parts {
		*packages = slices.DeleteFunc(*packages, func(p string) bool {
			if !strings.Contains(p, part) {
				return false
			}
			taken = append(taken, p)
			return true
		})
	}
	return taken
}

// behindLabs is the niceness of tests that run beside labs (sched(7)).
const behindLabs = 5

// test runs the tests of some packages with a niceness. At Ctrl-C it waits for the end of `go test`, since labs clean
// up.
func test(ctx context.Context, events *lines, packages []string, niceness int, flags ...string) error {
	if len(packages) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	// `make lint` has run vet, with more checks.
	argv := slices.Concat([]string{"-n", strconv.Itoa(niceness),
		"go", "test", "-json", "-count", "1", "-timeout", "60m", "-vet", "off"}, flags, packages)
	cmd := exec.Command("nice", argv...)
	if slices.Contains(flags, "-race") {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	if err := errors.Join(events.copy(out), cmd.Wait()); err != nil {
		return fmt.Errorf("go test %s: %w", strings.Join(flags, " "), err)
	}
	return nil
}

// lines is an output to which several writers write whole lines.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) copy(from io.Reader) error {
	for r := bufio.NewReader(from); ; {
		line, err := r.ReadBytes('\n')
		l.mu.Lock()
		_, werr := l.out.Write(line)
		l.mu.Unlock()
		switch {
		case errors.Is(err, io.EOF):
			return werr
		case err != nil || werr != nil:
			return errors.Join(err, werr)
		}
	}
}
