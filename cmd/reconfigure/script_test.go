package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/eiffel-hpc/eiffel/lab/postgres"
)

var update = flag.Bool("update", false, "write the expected output anew")

// TestMain makes the test binary act as `reconfigure`, also when the binary starts itself as a worker.
func TestMain(m *testing.M) {
	postgres.KeepIfAsked()
	// The scripts mostly wait, since the provider sleeps. The flag on the command line takes precedence, since
	// flags are parsed later.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"reconfigure": main})
}

// TestScripts runs testdata/script: commands of an administrator or Slurm, with their effects. It adds these commands
// to testscript's:
//
//	cluster                  makes a cluster directory here, and a cloud for it, whose servers are not real machines
//	site                     makes a site folder instead of a checkout
//	cloud                    makes only the cloud, and its clouds.yaml here
//	declare OLD NEW          replaces text in its declaration
//	fault KIND CALL          orders a fault for every such call: see labcloud.Kind
//	clear                    ends all faults, so that hanging calls continue
//	called CALL              waits until the cloud has received this call
//	exits CODE PROGRAM ARGS  runs a program and checks its exit code
//	inert CODE PROGRAM ARGS  does the same, and checks that no file here has changed
//	json FILE PATH KEY…      checks that each value at PATH (., nodes.0) in the file, or on stdout or stderr, has
//	                         exactly these keys; keys with a ? are optional
//	stray NAME ID            makes a server in the cloud that has the metadata of a cluster of this name, with its id or
//	                         `own`; unknown to Terraform
//	former                   makes the cluster look as an earlier version made it, without an id
//	vanish NAME              removes all servers with this name from the cloud behind Terraform's back
//	signal NAME PROGRAM ARG  sends a signal to a process of the script, as soon as there is one, by its program and
//	                         one of its arguments
//	pending N                checks that N requests have no outcome
//	settled                  waits until every request has its outcome, and the worker has ended
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		WorkdirRoot:         t.TempDir(), // which is removed for certain
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cluster": script(makeCluster), "site": script(makeSite), "cloud": script(makeCloud), "declare": script(declare),
			"fault": script(
				orderFault,
			), "limit": script(limitInstances), "clear": script(clearFaults), "called": script(awaitCall),
			"exits": script(demandExit), "inert": script(demandInert), "json": script(demandKeys),
			"stray": script(makeStray), "former": script(makeFormer), "vanish": script(removeServer),
			"signal": script(sendSignal), "pending": script(demandPending), "settled": script(awaitSettled),
		},
	})
}

// script returns a command that calls a function; such commands cannot be negated.
func script(do func(*testscript.TestScript, []string) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("this cannot be negated")
		}
		ts.Check(do(ts, args))
	}
}

func setup(e *testscript.Env) error {
	lab := &scriptLab{test: e.T(), work: e.WorkDir}
	e.Values[labKey{}] = lab
	e.Setenv("RECONFIGURE_DIR", "")
	e.Setenv(scriptMark, e.WorkDir)
	e.Defer(func() {
		if err := lab.close(); err != nil {
			e.T().Log(err)
			e.T().FailNow()
		}
	})
	return nil
}

func demandExit(ts *testscript.TestScript, args []string) error {
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	got := 0
	var ended *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
		got = ended.ExitCode()
	} else if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("it exited with %d, not with %d", got, want)
	}
	return nil
}

func demandInert(ts *testscript.TestScript, args []string) error {
	before, err := labOf(ts).files()
	if err != nil {
		return err
	}
	if err := demandExit(ts, args); err != nil {
		return err
	}
	after, err := labOf(ts).files()
	if diff := cmp.Diff(before, after); diff != "" {
		return fmt.Errorf("files have changed (-before +after):\n%s", diff)
	}
	return err
}

func demandKeys(ts *testscript.TestScript, args []string) error {
	values := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	for n := 0; ; n++ {
		var value any
		err := values.Decode(&value)
		switch {
		case errors.Is(err, io.EOF) && n > 0:
			return nil
		case err != nil:
			return fmt.Errorf("value %d: %w", n, err)
		}
		if value, err = at(value, args[1]); err != nil {
			return fmt.Errorf("value %d: %w", n, err)
		}
		if err := hasKeys(value, args[2:]); err != nil {
			return fmt.Errorf("value %d: %w", n, err)
		}
	}
}

// at returns a part of a value.
func at(value any, path string) (any, error) {
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' }) {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				return nil, fmt.Errorf("no %s in a list of %d", step, len(v))
			}
			value = v[i]
		default:
			return nil, fmt.Errorf("no %s in %v", step, value)
		}
	}
	return value, nil
}

func hasKeys(value any, keys []string) error {
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is no object", value)
	}
	object = maps.Clone(object)
	var want []string
	for _, key := range keys {
		if name, optional := strings.CutSuffix(key, "?"); optional {
			delete(object, name)
		} else {
			want = append(want, key)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(object))); diff != "" {
		return fmt.Errorf("keys (-want +got):\n%s", diff)
	}
	return nil
}
