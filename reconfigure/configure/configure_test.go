package configure_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/configure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func cluster() reconfigure.Cluster {
	return reconfigure.Cluster{
		Name: "burst", LoginUser: "debian", PrivateKeyFile: "/key", Control: reconfigure.Control{Name: "head"},
		Groups: []reconfigure.NodeGroup{{Name: "cloud", Prefix: "node", Width: 2, Max: 4}},
	}
}

// run has the command of a shell script configure node01 to node03, and returns their results.
func run(t *testing.T, script string) (results map[string]string, classes map[string]reconfigure.Class, log string,
	err error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "command"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	c := configure.Command{Argv: []string{"./command", "an argument"}, Dir: dir, Env: os.Environ(),
		KnownHosts: "/known_hosts", Log: &said}
	results, classes = map[string]string{}, map[string]reconfigure.Class{}
	failures, err := c.Configure(t.Context(), cluster(), map[string]reconfigure.Instance{
		"node01": {Address: "10.0.0.1"}, "node02": {Address: "10.0.0.2"}, "node03": {Address: "10.0.0.3"},
	}, reconfigure.Extent{Changed: nodeset.Of("head", "node01", "node02", "node03")}, func(string, string) {},
		func(node string, _ reconfigure.Configured, err error) {
			if _, twice := results[node]; twice {
				t.Errorf("%s has two results", node)
			}
			results[node] = "configured"
			if err != nil {
				results[node], classes[node] = err.Error(), reconfigure.ClassOf(err)
			}
		})
	failed := map[string]reconfigure.Class{}
	for node, err := range failures {
		failed[node] = reconfigure.ClassOf(err)
	}
	if diff := cmp.Diff(classes, failed); err == nil && diff != "" {
		t.Errorf("the failures differ from those that done was called with (-done +returned):\n%s", diff)
	}
	return results, classes, said.String(), err
}

// TestTheCommandTellsTheResultOfEachNode has a command with a verdict for two nodes.
func TestTheCommandTellsTheResultOfEachNode(t *testing.T) {
	const verdicts = `cat >task
echo begun
echo '{"node": "node01", "status": "configured"}'
echo '{"node": "node01", "status": "failed"}'
echo '{"node": "node09", "status": "failed"}'
echo '{"node": "node03", "status": "perhaps"}'
printf '{"node": "node02", "status": "failed", "message": "no license"}'
`
	for name, tc := range map[string]struct {
		script, third string
		class         reconfigure.Class
	}{
		"and ends well": {verdicts, "configured", ""},
		"and fails": {verdicts + "exit 3\n", "the site's command ended without a result of the node: ./command: exit status 3",
			reconfigure.ClassAnsible},
	} {
		t.Run(name, func(t *testing.T) {
			results, classes, log, err := run(t, tc.script)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"head": "configured", "node01": "configured",
				"node02": "the site's command: no license", "node03": tc.third}
			if diff := cmp.Diff(want, results); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			wanted := map[string]reconfigure.Class{"node02": reconfigure.ClassPlaybook}
			if tc.class != "" {
				wanted["node03"] = tc.class
			}
			if !maps.Equal(wanted, classes) {
				t.Errorf("classes %v, not %v", classes, wanted)
			}
			if want := "begun\n"; !bytes.HasPrefix([]byte(log), []byte(want)) {
				t.Errorf("the log has %q", log)
			}
		})
	}
}

func TestTheCommandIsToldTheNodes(t *testing.T) {
	results, _, log, err := run(t, "cat\n")
	if err != nil || results["node03"] != "configured" {
		t.Fatal(results, err)
	}
	var got configure.Task
	if err := json.Unmarshal([]byte(log), &got); err != nil {
		t.Fatalf("%v in %q", err, log)
	}
	want := configure.Task{Cluster: "burst", Control: "head", User: "debian", Key: "/key", KnownHosts: "/known_hosts",
		Nodes: []configure.Node{{Name: "node01", Address: "10.0.0.1", Group: "cloud"},
			{Name: "node02", Address: "10.0.0.2", Group: "cloud"}, {Name: "node03", Address: "10.0.0.3", Group: "cloud"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestACommandThatCannotBeStartedHasNoResults(t *testing.T) {
	c := configure.Command{Argv: []string{"/does/not/exist"}, Log: &bytes.Buffer{}}
	_, err := c.Configure(t.Context(), cluster(), nil, reconfigure.Extent{Changed: nodeset.Of("node01")},
		func(string, string) {}, func(string, reconfigure.Configured, error) { t.Error("there is a result") })
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Argv = []string{"true"}
	if _, err = c.Configure(ctx, cluster(), nil, reconfigure.Extent{Changed: nodeset.Of("node01")},
		func(string, string) {}, func(string, reconfigure.Configured, error) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
