package gate

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

var (
	controller = Key{Role: Controller}
	node01     = Key{Role: Node, Node: "node01"}
)

func TestCallsBecomeArguments(t *testing.T) {
	for command, want := range map[string][]string{
		"resume node[01-02],gpu1": {"resume", "--no-wait", "gpu1,node[01-02]"},
		"resume --jobs node1":     {"resume", "--no-wait", "--resume-file", "-", "node1"},
		"resume node1 --jobs":     {"resume", "--no-wait", "--resume-file", "-", "node1"},
		"suspend node2,node1":     {"suspend", "--no-wait", "node[1-2]"},
		"resume-fail node1":       {"suspend", "--no-wait", "--reason", "not registered within ResumeTimeout", "node1"},
		"update node1":            {"update", "--no-wait", "--from-slurm", "node1"},
		"status":                  {"status"},
		"status --json":           {"status", "--json"},
		"status --json node1":     {"status", "--json", "node1"},
		"status node1 --json":     {"status", "--json", "node1"},
		"status status":           {"status", "status"}, // a node may have any name
	} {
		call, err := Parse(controller, command)
		if err != nil {
			t.Errorf("%q: %v", command, err)
			continue
		}
		if diff := cmp.Diff(want, call.Arguments()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", command, diff)
		}
	}
}

func TestWhatIsNotInTheGrammarIsRefused(t *testing.T) {
	for _, command := range []string{
		"", " ", "\n", "sh", "-c", "resume", "resume ", " resume node1", "resume  node1", "resume node1 ", "resume\tnode1",
		"resume node1\n", "resume node1 node2", "resume --jobs", "resume node1 --jobs --jobs", "resume --jobs --jobs node1",
		"resume --json node1", "suspend --jobs node1", "suspend --reason x node1", "--dir / resume node1",
		"resume --resume-file /etc/passwd node1", "RESUME node1", "destroy", "deploy", "gate --role controller",
		"jobs", "jobs 1", "report", "report --since 1d",
		"resume node1;id", "resume 'node1'", "resume node[1-", "resume node[1-99999999]", "resume --", "resume -x",
		"resume nöde1", "resume node1\x00", "status --jobs", "status --json --json", "status a b", "status -o json",
		"resume " + strings.Repeat("n", MaxCommand),
	} {
		if call, err := Parse(controller, command); err == nil {
			t.Errorf("%.60q is %q", command, call.Arguments())
		}
	}
}

func TestANodeMayUpdateItselfOnly(t *testing.T) {
	if call, err := Parse(node01, "update node01"); err != nil || !call.Nodes.Equal(nodeset.Of("node01")) {
		t.Errorf("%+v, %v", call, err)
	}
	for _, command := range []string{
		"", "update", "update node02", "update node[01-02]", "update node01,node02", "update node1", "status",
		"status node01", "resume node01", "suspend node01", "resume-fail node01", "update --jobs node01", "jobs", "report",
	} {
		if call, err := Parse(node01, command); err == nil {
			t.Errorf("%q is %q", command, call.Arguments())
		}
	}
}

func TestARoleWithWrongOptionsIsRefused(t *testing.T) {
	for _, k := range []Key{{}, {Role: "root"}, {Role: Controller, Node: "node01"}, {Role: Node},
		{Role: Node, Node: "a b"}} {
		if k.Check() == nil {
			t.Errorf("%+v is accepted", k)
		}
	}
	for _, k := range []Key{controller, node01} {
		if err := k.Check(); err != nil {
			t.Errorf("%+v: %v", k, err)
		}
	}
}

// FuzzParse searches for a command that Parse turns into one outside of the grammar.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "resume --jobs node[01-02]", "status --json", "update node01", "resume-fail a,b;c"} {
		f.Add(seed)
	}
	verbs := []string{"resume", "suspend", "update", "status"}
	flags := []string{
		"--no-wait", "--resume-file", "-", "--reason", "not registered within ResumeTimeout", "--from-slurm", "--json",
	}
	f.Fuzz(func(t *testing.T, command string) {
		for _, key := range []Key{controller, node01} {
			call, err := Parse(key, command)
			if err != nil {
				continue
			}
			if strings.Trim(command, allowed+" ") != "" || strings.ContainsAny(command, "\x00\n;'\"$`\\") {
				t.Fatalf("%q is accepted", command)
			}
			arguments := call.Arguments()
			if !slices.Contains(verbs, arguments[0]) {
				t.Fatalf("%q becomes %q", command, arguments)
			}
			rest := slices.DeleteFunc(arguments[1:], func(a string) bool { return slices.Contains(flags, a) })
			switch {
			case len(rest) == 0 && call.Verb == Status:
			case len(rest) != 1:
				t.Fatalf("%q becomes %q", command, arguments)
			default:
				if again, err := nodeset.Parse(rest[0]); err != nil || !again.Equal(call.Nodes) {
					t.Fatalf("%q becomes %q: %v", command, rest, err)
				}
			}
			if key == node01 && command != "update node01" && !call.Nodes.Equal(nodeset.Of("node01")) {
				t.Fatalf("a node's %q becomes %q", command, arguments)
			}
		}
	})
}
