package slurm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// FuzzParseResumeFile parses any text: the jobs have positive ids, valid nodes and a limited number, and are the same
// after they are written and read again.
func FuzzParseResumeFile(f *testing.F) {
	for _, seed := range []string{
		resumeFile2205, resumeFileLater, "", "[]", "null",
		`{"jobs":[{"job_id":1,"nodes":"c[2-1]"},{"job_id":5,"nodes":"c002","nodes_resume":"c001"},7,null]}`,
		`{"jobs":[{"job_id":-1,"nodes":"n1"},{"job_id":9223372036854775808},{"nodes":"n[1-65536]"}]}`,
		`{"jobs":[{"job_id":1,"nodes":"n[1-65536]"},{"job_id":2,"nodes":"m[1-65536],n1"}]}`,
		`{"jobs":[{"job_id":1,"nodes":"n[1-65536]","nodes_resume":"m[1-65536]"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		jobs, err := ParseResumeFile(text)
		if err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Error("the error is empty")
		}
		total := 0
		for _, job := range jobs {
			total += job.Nodes.Len()
			if job.ID <= 0 {
				t.Errorf("a job has the id %d", job.ID)
			}
			for node := range job.Nodes.All() {
				if err := nodeset.ValidName(node); err != nil {
					t.Errorf("job %d: %v", job.ID, err)
				}
			}
		}
		if total > maxResumeNames {
			t.Errorf("the jobs have %d nodes", total)
		}
		written, err := json.Marshal(map[string][]reconfigure.Job{"jobs": jobs})
		if err != nil {
			t.Fatal(err)
		}
		same := func(a, b reconfigure.Job) bool {
			return a.ID == b.ID && a.Nodes.Equal(b.Nodes) && a.Partition == b.Partition
		}
		again, err := ParseResumeFile(written)
		if err != nil || !slices.EqualFunc(jobs, again, same) {
			t.Errorf("%s is read as %+v, error %v", written, again, err)
		}
	})
}

// FuzzListing parses any answer of the control node, and its first cut bytes. An incomplete answer is an error. The
// states have names that Slurm allows, and are the same after they are written in the form of a later release and read
// again.
func FuzzListing(f *testing.F) {
	for file, by := range map[string]lister{
		"sinfo-22.05.json": bySinfo, "sinfo-22.05-unreachable.json": bySinfo, "scontrol-25.11.json": byScontrol,
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		var short bytes.Buffer // many more inputs a second
		if err := json.Compact(&short, text); err != nil {
			f.Fatal(err)
		}
		f.Add(answer(by, short.Bytes(), "p1,c[001-002]"), 100)
	}
	small := `{"nodes":[{"name":"p1","state":["DOWN","CLOUD"],"boot_time":{"set":true,"number":7},"alloc_cpus":1}]}`
	whole := answer(byScontrol, []byte(small), "p1")
	f.Add(whole, len(whole)-len(completed)-len(mark)-2) // after the list of nodes
	f.Add(answer(bySinfo, []byte(`{"nodes":[{"name":"../x","state":"idle*","boot_time":1e300,"last_busy":1e300},null]}`), ""), 0)
	f.Fuzz(func(t *testing.T, out []byte, cut int) {
		end := "\n" + mark + completed
		if i := bytes.Index(out, []byte(end)); cut >= 0 && cut < len(out) && (i < 0 || cut < i+len(end)) {
			if l, err := parseListing(out[:cut]); err == nil {
				t.Errorf("an answer that is cut off is taken for %+v", l)
			}
		}
		l, err := parseListing(out)
		if err != nil {
			if len(l.nodes) > 0 || !l.suspended.Empty() {
				t.Errorf("there are nodes in addition to the error %v: %+v", err, l)
			}
			return
		}
		var states []reconfigure.NodeState
		var written []string
		for _, n := range l.nodes {
			state := n.state()
			if !slurmName.MatchString(state.Node) {
				t.Errorf("a node has the name %q", state.Node)
			}
			if _, err := state.Boot.MarshalText(); err != nil {
				t.Errorf("%s: boot time: %v", state.Node, err)
			}
			states, written = append(states, state), append(written, writeLater(t, state))
		}
		again, err := parseListing(answer(byScontrol, []byte(`{"nodes":[`+strings.Join(written, ",")+`]}`), ""))
		if err != nil || len(again.nodes) != len(states) {
			t.Fatalf("%s: %d nodes, error %v", written, len(again.nodes), err)
		}
		for i, state := range states {
			if got := again.nodes[i].state(); !got.Equal(state) {
				t.Errorf("%+v is read again as %+v", state, got)
			}
		}
	})
}

// FuzzSettings parses any text as the output of `scontrol show config`: no setting is lost, and the settings are the
// same after they are written and read again.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(config))
	f.Add([]byte(strings.Repeat("x", 1<<17) + " = long\nSLURM_VERSION = 22.05.8"))
	f.Add([]byte("a = b = c\r\n= d\na=2\nConfiguration data as of 9999-99-99T00:00:00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		values := parseSettings(text).Values
		var written strings.Builder
		for name, value := range values {
			fmt.Fprintf(&written, "%s = %s\n", name, value)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			name, _, is := strings.Cut(line, "=")
			if _, known := values[strings.TrimSpace(name)]; is && !known {
				t.Errorf("%q is lost", line)
			}
		}
		if again := parseSettings([]byte(written.String())).Values; !maps.Equal(again, values) {
			t.Errorf("%q is read again as %q", values, again)
		}
	})
}

// answer is the output of slurm_commands.py for a list of nodes and the list of suspended jobs' nodes.
func answer(by lister, nodes []byte, suspended string) []byte {
	return fmt.Appendf(nil, "\n-- %s\n%s\n-- squeue\n%s\n-- completed\n", by, nodes, suspended)
}

// writeLater writes a state as scontrol does since 23.02.
func writeLater(t *testing.T, s reconfigure.NodeState) string {
	type number struct {
		Set    bool  `json:"set"`
		Number int64 `json:"number"`
	}
	next, busy := []string{}, 0
	if s.Returns {
		next = append(next, "RESUME")
	}
	if s.Busy {
		busy = 1
	}
	boot, idle := number{}, number{}
	if !s.IdleSince.IsZero() {
		idle = number{true, s.IdleSince.Unix()}
	}
	if !s.Boot.IsZero() {
		boot = number{true, s.Boot.Unix()}
	}
	text, err := json.Marshal(map[string]any{
		"name": s.Node, "state": s.Words(), "reason": s.Reason, "address": s.Address, "boot_time": boot,
		"last_busy": idle, "alloc_cpus": busy, "next_state_after_reboot": next,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
