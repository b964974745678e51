package attach_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// files are the files of the control node that make a machine a node of the site.
const files = "etc/hosts etc/munge/munge.key etc/slurm/slurm.conf etc/slurm/eiffel.conf etc/slurm/cgroup.conf " +
	"etc/slurm/site"

// start starts a node that has the files.
const start = "mkdir -p /var/spool/slurmd.site && service munge restart && service slurmd restart"

// command is a site's command. It fails for the nodes that are named in a file.
const command = `#!/usr/bin/python3
import json, os, subprocess, sys

task = json.load(sys.stdin)
here = os.path.dirname(os.path.abspath(sys.argv[0]))


def ssh(address, command, **options):
    return subprocess.run(["ssh", "-o", "BatchMode=yes", "-o", "UserKnownHostsFile=" + task["known_hosts"],
                           "-i", task["private_key_file"], task["login_user"] + "@" + address, command], **options)


tar = ssh(task["control_node"], "sudo tar -C / -c ` + files + `", stdout=subprocess.PIPE, check=True).stdout
for node in task["nodes"]:
    with open(os.path.join(here, "refused")) as file:
        if node["name"] in file.read().split():
            result = {"node": node["name"], "status": "failed", "message": "the license server refuses it"}
            print(json.dumps(result), flush=True)
            continue
    ssh(node["address"], "sudo sh -c 'tar -C / -x && ` + start + `'", input=tar, stdout=sys.stderr, check=True)
    print(json.dumps({"node": node["name"], "status": "configured"}), flush=True)
`

// playbook is a site's playbook that does the same.
const playbook = `- hosts: control
  gather_facts: false
  become: true
  tasks:
    - name: Read the files
      ansible.builtin.shell: tar -C / -cz ` + files + ` | base64 --wrap=0
      register: files

- hosts: compute
  gather_facts: false
  become: true
  tasks:
    - name: Check out a license
      ansible.builtin.fail:
        msg: the license server refuses it
      when: inventory_hostname in lookup('ansible.builtin.file', 'refused').split()

    - name: Join the cluster
      ansible.builtin.shell: base64 --decode | tar -C / -xz && ` + start + `
      args:
        stdin: "{{ hostvars[groups['control'][0]].files.stdout }}"
`

func TestACommandOfTheSiteConfiguresTheNodes(t *testing.T) {
	generation.OnlyFull(t)
	program := filepath.Join(lab.Site, "join")
	siteConfigures(t, program, command, []string{program})
}

func TestAPlaybookOfTheSiteConfiguresTheNodes(t *testing.T) {
	generation.OnlyFull(t)
	siteConfigures(t, filepath.Join(lab.Site, "join.yml"), playbook, "join.yml")
}

// siteConfigures has nodes configured in the site's way. It fails for a node, whose job is requeued and then runs
// there. After that a reboot by Slurm makes the node anew.
func siteConfigures(t *testing.T, file, text string, way any) {
	before := lab.Sums(t)
	refused := filepath.Join(lab.Site, "refused")
	for path, text := range map[string]string{file: text, refused: "node01\n"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lab.Redeclare(t, func(d *cluster.Declaration) { d.ControlNode.Configure = way })
	lab.Do(t, "attach")
	lab.Do(t, "deploy")

	job := lab.Job(t, "--partition=burst", "--nodelist=node01", harness.Until)
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		restarts, err := lab.JobField(job, "Restarts")
		return err == nil && restarts == "1", "the job has " + restarts + " restarts"
	})
	if out := lab.Do(t, "explain", "node01"); !strings.Contains(out, "the license server refuses it") {
		t.Errorf("explain node01:\n%s", out)
	}
	if err := os.WriteFile(refused, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		lab.Hurry(t, job)
		state, err := lab.JobState(job)
		return err == nil && state == "RUNNING", "job is " + state
	})
	lab.Reimage(t, "node01", job, "node01")
	lab.AwaitQuiet(t)
	lab.DestroyAndDetach(t, before)
}
