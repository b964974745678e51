package ansible

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// TestAPlaybookOfTheSite runs playbooks of a site for node01 and big1. All hosts are this machine.
func TestAPlaybookOfTheSite(t *testing.T) {
	const local = "  gather_facts: false\n  connection: local\n"
	const ended = `not configured, because the run ended at ctl: task "Read": no key`
	const other = "not configured: no play of the site's playbook has the node; its group is compute"
	for _, tc := range []struct {
		name, playbook string
		want           map[string]string // the failures
	}{
		{name: "a role that its ansible.cfg finds", playbook: "- hosts: compute\n" + local + "  roles: [join]\n"},
		{name: "the control node has the files", playbook: "- hosts: control\n" + local +
			"  tasks: [{command: echo key, register: key}]\n- hosts: group_standard:group_big\n" + local +
			"  tasks: [{assert: {that: \"hostvars[groups.control[0]].key.stdout == 'key'\"}}]\n"},
		{name: "one fails", playbook: "- hosts: compute\n" + local +
			"  tasks: [{name: License, fail: {msg: no license}, when: inventory_hostname == 'big1'}, {ping: {}}]\n",
			want: map[string]string{"big1": `task "License": no license`}},
		{name: "a tag of the site", playbook: "- hosts: compute\n" + local + "  tasks: [{ping: {}, tags: last}, " +
			"{name: License, fail: {msg: no license}, when: inventory_hostname == 'big1'}]\n",
			want: map[string]string{"big1": `task "License": no license`}},
		{name: "a failure is rescued", playbook: "- hosts: compute\n" + local +
			"  tasks: [{block: [{fail: {msg: first}}], rescue: [{ping: {}}]}]\n"},
		{name: "a rescue fails", playbook: "- hosts: compute\n" + local + "  tasks: [{block: [{fail: {msg: first}, " +
			"when: inventory_hostname == 'big1'}], rescue: [{name: Undo, fail: {msg: second}}]}]\n",
			want: map[string]string{"big1": `task "Undo": second`}},
		{name: "the control node fails", playbook: "- hosts: control\n" + local +
			"  tasks: [{name: Read, fail: {msg: no key}}]\n- hosts: compute\n" + local + "  tasks: [{ping: {}}]\n",
			want: map[string]string{"node01": ended, "big1": ended}},
		{name: "other hosts", playbook: "- hosts: workers\n" + local + "  tasks: [{ping: {}}]\n",
			want: map[string]string{"node01": other, "big1": other}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, p := ofSite(t, tc.playbook)
			failures, err := r.configureBy(t.Context(), p)
			if err != nil {
				t.Fatalf("%v\n%s", err, r.log)
			}
			want := tc.want
			if want == nil {
				want = map[string]string{}
			}
			if diff := cmp.Diff(want, failures); diff != "" {
				t.Errorf("failures (-want +got):\n%s\n%s", diff, r.log)
			}
			var done []string
			for _, node := range []string{"big1", "ctl", "node01"} {
				result := "<nil>"
				if want[node] != "" {
					result = want[node]
				}
				done = append(done, node+": "+result)
			}
			slices.Sort(r.done)
			if diff := cmp.Diff(done, r.done); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			if left := r.leftovers(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestAFailureInAPlaybookOfTheSiteIsReportedAtOnce has a node fail in a run that then waits for the test.
func TestAFailureInAPlaybookOfTheSiteIsReportedAtOnce(t *testing.T) {
	r, p := ofSite(t, `
- hosts: compute
  gather_facts: false
  connection: local
  tasks:
    - {fail: {msg: no license}, when: inventory_hostname == 'big1'}
    - wait_for: {path: "{{ playbook_dir }}/go", sleep: 1}
`)
	_, err := p.Configure(t.Context(), r.cluster, r.instances,
		reconfigure.Extent{Changed: nodeset.Of("node01", "big1")}, func(string, string) {},
		func(node string, _ reconfigure.Configured, err error) {
			r.done = append(r.done, node)
			if err != nil {
				write(t, filepath.Join(r.Dir, "site", "go"), "")
			}
		})
	if want := []string{"big1", "node01"}; err != nil || !slices.Equal(r.done, want) {
		t.Errorf("%v (%v), not %v\n%s", r.done, err, want, r.log)
	}
}

func TestAPlaybookOfTheSiteThatCannotBeReadHasNoResults(t *testing.T) {
	r, p := ofSite(t, "- hosts: compute\n  roles: [absent]\n")
	if failures, err := r.configureBy(t.Context(), p); err == nil {
		t.Errorf("failures %v and no error\n%s", failures, r.log)
	}
}

// ofSite returns a run and a playbook of a site, which has a role where its ansible.cfg says.
func ofSite(t *testing.T, playbook string) (*run, SitePlaybook) {
	t.Helper()
	r := newRun(t, "")
	for path, text := range map[string]string{
		"site/join.yml": playbook, "site/ansible.cfg": "[defaults]\nroles_path = parts\n",
		"site/parts/join/tasks/main.yml": "- ping: {}\n",
	} {
		write(t, filepath.Join(r.Dir, filepath.FromSlash(path)), text)
	}
	return r, SitePlaybook{Runner: r.Runner, Playbook: filepath.Join(r.Dir, "site", "join.yml")}
}

func (r *run) configureBy(ctx context.Context, p SitePlaybook) (map[string]string, error) {
	failures, err := p.Configure(ctx, r.cluster, r.instances,
		reconfigure.Extent{Changed: nodeset.Of("node01", "big1", "ctl")}, func(string, string) {},
		func(node string, _ reconfigure.Configured, err error) {
			r.lock.Lock()
			defer r.lock.Unlock()
			r.done = append(r.done, fmt.Sprintf("%s: %v", node, err))
		})
	return texts(failures), err
}
