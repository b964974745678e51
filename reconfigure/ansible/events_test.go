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
				"node02": "not configured: the run ended without its last task",
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
			errors.New("the playbook ended well, but its last play never began")},
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
