package ansible

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// recorded returns the record of the events in a file.
func recorded(t *testing.T, name string) record {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var r record
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		r.add(e)
	}
	return r
}

func TestVerdicts(t *testing.T) {
	exit := func(code int) error { return &process.Error{Path: "ansible-playbook", Code: code} }
	interrupted := &process.Error{Path: "ansible-playbook", Code: 99, Err: context.Canceled}
	for name, tc := range map[string]struct {
		events  string
		changed []string
		end     error
		want    map[string]string
		wantErr error
	}{
		"all well": {events: "well.jsonl", changed: []string{"node01", "node02"},
			want: map[string]string{}},
		"a failed task is its host's failure": {"failed.jsonl", []string{"node01", "node02"}, exit(2),
			map[string]string{"node02": `task "Start slurmd": it does not start`}, nil},
		"an unreachable changed node fails": {"elsewhere.jsonl", []string{"node01", "node02"}, exit(4),
			map[string]string{"node02": "could not be reached: No route to host"}, nil},
		"an unreachable node elsewhere fails no other": {"elsewhere.jsonl", []string{"node01"}, exit(4),
			map[string]string{}, nil},
		"failed and unreachable at once": {"elsewhere.jsonl", []string{"node01"}, exit(6),
			map[string]string{}, nil},
		"after a failed control node the others are not configured": {"control.jsonl", []string{"ctl", "node01"},
			exit(2), map[string]string{
				"ctl": `task "Wait until slurmctld answers": slurmctld is down`,
				"node01": `not configured, because the run ended at ctl: ` +
					`task "Wait until slurmctld answers": slurmctld is down`,
			}, nil},
		"the run ended at the host that failed last": {"elsewhere-first.jsonl", []string{"ctl", "node01"}, exit(6),
			map[string]string{
				"ctl":    `task "Report the errors of slurmctld": no such key`,
				"node01": `not configured, because the run ended at ctl: task "Report the errors of slurmctld": no such key`,
			}, nil},
		"an ignored failure fails no node": {"ignored.jsonl", []string{"node01"}, nil, map[string]string{}, nil},
		"a rescued failure is no failure":  {"put-back.jsonl", []string{"ctl"}, nil, map[string]string{}, nil},
		"a node without its last task is not configured": {"ignored.jsonl", []string{"node01", "node02"}, nil,
			map[string]string{
				"node02": "not configured: the run ended before its last task",
			}, nil},
		"a node whose last task ended well is done, also where the run ended early": {"half.jsonl",
			[]string{"node01", "node02", "node03"}, exit(2), map[string]string{
				"node02": `task "Install what is missing": no network`,
				"node03": `not configured, because the run ended at node02: task "Install what is missing": no network`,
			}, nil},
		"the last failure of a host is its error": {"rescued.jsonl", []string{"ctl"}, exit(2),
			map[string]string{"ctl": `task "Report the errors of slurmctld": no such key`}, nil},
		"a syntax error is no verdict":         {"empty.jsonl", []string{"node01"}, exit(4), nil, exit(4)},
		"an unknown exit status is no verdict": {"well.jsonl", []string{"node01"}, exit(250), nil, exit(250)},
		"a signal is no verdict":               {"well.jsonl", []string{"node01"}, exit(-1), nil, exit(-1)},
		"an interrupt is no verdict": {"failed.jsonl", []string{"node01"}, interrupted, nil,
			context.Canceled},
		"a later play cannot be read": {"early.jsonl", []string{"node01"}, exit(4), nil, exit(4)},
		"exit status 0 with plays left out is an error": {"early.jsonl", []string{"node01"}, nil, nil,
			errors.New("the playbook succeeded, but its last play never began")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := recorded(t, tc.events).verdicts(nodeset.Of(tc.changed...), tc.end)
			if tc.wantErr != nil {
				if err == nil || !errors.Is(err, tc.wantErr) && err.Error() != tc.wantErr.Error() {
					t.Fatalf("error is %v, want %v", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, texts(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTroubleOfAnotherHostIsNoFailureOfANodesInstance uses runs in which a node has no result. A new instance of the
// node would not have one either.
func TestTroubleOfAnotherHostIsNoFailureOfANodesInstance(t *testing.T) {
	unreachable := event{Event: eventUnreachable, Host: "ctl", Task: "Read the files for the compute nodes",
		Message: "Connection timed out"}
	failed := event{Event: eventFailed, Host: "ctl", Task: "Read the files for the compute nodes", Message: "no such file"}
	for name, tc := range map[string]struct {
		plays  int // of the playbook's plays
		events []event
		code   int
		want   string
		class  reconfigure.Class
	}{
		"the control node is silent": {1, []event{unreachable}, 4,
			"not configured, because the run ended at ctl: could not be reached: Connection timed out",
			reconfigure.ClassAnsible},
		"a task failed on the control node": {1, []event{failed}, 2, "not configured, because the run ended at ctl: " +
			`task "Read the files for the compute nodes": no such file`, reconfigure.ClassAnsible},
		"no task was the last one of the node": {2, nil, 0, "not configured: the run ended before its last task",
			reconfigure.ClassAnsible},
		"the control host's disk is full": {2, []event{{Event: eventFailed, Host: "node01", Task: "Authorize its key",
			Message: "No space left on device", Here: true}}, 2,
			`on the control host: task "Authorize its key": No space left on device`, reconfigure.ClassAnsible},
		"the node is silent": {2, []event{{Event: eventUnreachable, Host: "node01", Message: "No route to host"}}, 4,
			"could not be reached: No route to host", reconfigure.ClassSSH},
		"a health check of the node failed": {2, []event{{Event: eventFailed, Host: "node01", Task: "Start slurmd",
			Message: "health check disks failed", Unhealthy: true}}, 2, "health check disks failed",
			reconfigure.ClassUnhealthy},
		"a task failed on the node": {2, []event{{Event: eventFailed, Host: "node01", Task: "Start slurmd",
			Message: "it does not start"}}, 2, `task "Start slurmd": it does not start`, reconfigure.ClassOther},
	} {
		t.Run(name, func(t *testing.T) {
			var r record
			r.add(event{Event: eventPlaybook, Plays: 2})
			for range tc.plays {
				r.add(event{Event: eventPlay})
			}
			for _, e := range tc.events {
				r.add(e)
			}
			var end error
			if tc.code != 0 {
				end = &process.Error{Path: "ansible-playbook", Code: tc.code}
			}
			failures, err := r.verdicts(nodeset.Of("node01"), end)
			if err != nil {
				t.Fatal(err)
			}
			got := failures["node01"]
			if got == nil || got.Error() != tc.want || reconfigure.ClassOf(got) != tc.class {
				t.Errorf("got %v of class %s, want %s of class %s", got, reconfigure.ClassOf(got), tc.want, tc.class)
			}
		})
	}
}

// TestWhatAnsibleSaidIsGivenByPlaceAndReason uses output of ansible-core 2.14.
func TestWhatAnsibleSaidIsGivenByPlaceAndReason(t *testing.T) {
	for name, tc := range map[string]struct{ printed, want string }{
		"a syntax error": {`ERROR! We were unable to read either as JSON nor YAML, these are the errors we got from each:
JSON: Expecting value: line 1 column 1 (char 0)

Syntax Error while loading YAML.
  mapping values are not allowed in this context

The error appears to be in '/site/state/ansible/run-1/group_vars/cluster.yml': line 3, column 5, but may
be elsewhere in the file depending on the exact syntax problem.

The offending line appears to be:


a: b: c
    ^ here
`, "group_vars/cluster.yml, line 3, column 5: syntax error: mapping values are not allowed in this context"},
		"a role that is missing": {`[WARNING]: something else
ERROR! the role 'nope' was not found in /site/ansible/roles

The error appears to be in '/site/ansible/site.yml': line 2, column 11, but may
be elsewhere in the file depending on the exact syntax problem.
`, "ansible/site.yml, line 2, column 11: the role 'nope' was not found in /site/ansible/roles"},
		"a file that cannot be read": {"ERROR! an error occurred while trying to read the file " +
			"'/site/state/ansible/run-1/group_vars/cluster.yml': [Errno 13] Permission denied\n",
			"an error occurred while trying to read the file 'group_vars/cluster.yml': [Errno 13] Permission denied"},
		"a full disk": {"ERROR: Unable to create local directories(/site/state/ansible/run-1): [Errno 28] No space left " +
			"on device\n",
			"Unable to create local directories(/site/state/ansible/run-1): [Errno 28] No space left on device"},
		"a fault of Python": {"Traceback (most recent call last):\n  File \"x\", line 1, in <module>\n" +
			"OSError: [Errno 28] No space left on device\n", "OSError: [Errno 28] No space left on device"},
		"nothing": {"", "ansible-playbook: exit status 4"},
	} {
		t.Run(name, func(t *testing.T) {
			ended := &process.Error{Path: "ansible-playbook", Code: 4, Stderr: tc.printed}
			got := explained(ended, "/site", sources{dir: "/site"}.names("/site/state/ansible/run-1"))
			if got.Error() != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if printed := reconfigure.OutputOf(got); printed != tc.printed {
				t.Errorf("the evidence is %q", printed)
			}
			if !aboutHosts(got) {
				t.Error("the exit status is lost")
			}
		})
	}
	interrupted := &process.Error{Path: "ansible-playbook", Err: context.Canceled, Stderr: "ERROR! User interrupted\n"}
	if got := explained(interrupted, "/site", sources{dir: "/site"}.names("/x")); got != error(interrupted) {
		t.Errorf("an interrupt is %v", got)
	}
}

func TestAPipeWithoutEventsEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	s, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s.end()
	if err := s.read(func(e event) { t.Errorf("event %v", e) }); err != nil {
		t.Error(err)
	}
}

func TestEventsInThePipeAreReadAfterTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	s, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	// A writer that does not close the pipe, such as a process that Ansible left behind.
	other, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.WriteString(`{"event":"playbook","plays":6}` + "\n"); err != nil {
		t.Fatal(err)
	}
	s.end()
	var got []event
	if err := s.read(func(e event) { got = append(got, e) }); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]event{{Event: eventPlaybook, Plays: 6}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
