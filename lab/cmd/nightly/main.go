// Command nightly runs new random storms on the simulated cluster for some time, in rounds; `make test` repeats the
// same storms each time. Each round of each kind has a different seed. For a failure, nightly prints the command that
// repeats it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// folder is the folder with the storms, in which go test also runs them.
const folder = "reconfigure/simulate/storm"

func main() {
	long := flag.Duration("for", time.Hour, "the time after which no other round begins")
	checks := flag.Int("storms", 300, "the number of storms of each kind in a round")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n := &night{out: os.Stdout, checks: *checks, play: playIn}
	if err := n.run(ctx, *long); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// night runs rounds of storms and counts the storms.
type night struct {
	out    io.Writer
	checks int
	// play runs the test program with arguments and returns its output.
	play func(ctx context.Context, program string, args ...string) (output []byte, failed bool, err error)

	rounds, storms int
	failed         []string // the commands that repeat failed storms
}

// run ends with an error if a storm has failed.
func (n *night) run(ctx context.Context, long time.Duration) error {
	temporary, err := os.MkdirTemp("", "nightly")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary) //nolint:errcheck // inside the folder for temporary files
	program := filepath.Join(temporary, "storm.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./"+folder)
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests: %w\n%s", err, said)
	}
	listed, _, err := n.play(ctx, program, "-test.list", "^TestStorm[OW]|^TestStorm$")
	if err != nil {
		return err
	}
	for end := time.Now().Add(long); ctx.Err() == nil && (n.rounds == 0 || time.Now().Before(end)); n.rounds++ {
		for _, test := range strings.Fields(string(listed)) {
			if err := n.round(ctx, program, test); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	fmt.Fprintf(n.out, "%d rounds, %d storms, %d failures\n", n.rounds, n.storms, len(n.failed))
	if len(n.failed) > 0 {
		return errors.New("storms have failed; to play them again:\n" + strings.Join(n.failed, "\n"))
	}
	return nil
}

// round runs the storms of one kind.
func (n *night) round(ctx context.Context, program, test string) error {
	seed, checks := strconv.FormatUint(1+rand.Uint64N(1<<48), 10), strconv.Itoa(n.checks)
	again := fmt.Sprintf("go test -count 1 ./%s -run '^%s$' -rapid.seed=%s -rapid.checks=%s", folder, test, seed, checks)
	output, failed, err := n.play(ctx, program, "-test.v", "-test.timeout=0", "-test.run=^"+test+"$",
		"-rapid.seed="+seed, "-rapid.checks="+checks, "-rapid.nofailfile")
	if err != nil || ctx.Err() != nil {
		return err
	}
	played := storms(output)
	n.storms += played
	fmt.Fprintf(n.out, "%s %s: %d storms, seed %s\n", time.Now().Format(time.TimeOnly), test, played, seed)
	if failed {
		n.failed = append(n.failed, again)
		fmt.Fprintf(n.out, "FAILED; to play it again: %s\n%s\n", again, output)
	}
	return nil
}

var counted = regexp.MustCompile(`(?m): (\d+) storms, |failed after (\d+) tests`)

// storms returns the number of storms that a test ran, even if the test failed.
func storms(output []byte) (total int) {
	for _, found := range counted.FindAllSubmatch(output, -1) {
		n, err := strconv.Atoi(string(bytes.Join(found[1:], nil)))
		if err == nil {
			total += n
		}
	}
	return total
}

// playIn runs a program in the folder of the storms.
func playIn(ctx context.Context, program string, args ...string) (output []byte, failed bool, err error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = folder
	output, err = command.CombinedOutput()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		return output, true, nil
	}
	return output, false, err
}
