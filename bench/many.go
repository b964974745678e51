package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func manyGroups(s sizes) []cluster.NodeGroup {
	return []cluster.NodeGroup{cluster.Group("many", "m", 0, s.many)}
}

// many measures many nodes that one job needs.
func (b *bench) many(ctx context.Context) (report, error) {
	r := report{about: fmt.Sprintf(
		"A job needs %d nodes without an instance. CPU is that of the worker and its children on the control host: "+
			"Terraform, the provider, Ansible and SSH. It does not include the nodes, which share its cores on the lab. "+
			"The steps are those of the node that registers last.",
		b.sizes.many,
	)}
	lab, err := b.lab(ctx)
	if err != nil {
		return r, err
	}
	nodes := numbered(manyGroups(b.sizes)[0], 1, b.sizes.many)
	if err := lab.settled(ctx); err != nil {
		return r, err
	}
	taken() // do not count earlier processes
	begun := time.Now()
	job, err := lab.Submit(
		fmt.Sprintf("--nodes=%d", len(nodes)), "--nodelist="+strings.Join(nodes, ","), "--output=/dev/null",
		"--wrap="+firstLine,
	)
	if err != nil {
		return r, err
	}
	came, err := lab.registered(ctx, nodes...)
	if err != nil {
		return r, err
	}
	if err := lab.settled(ctx); err != nil {
		return r, err
	}
	cpu := taken().all
	steps, err := lab.stepsOnce(ctx, job, begun, came)
	if err != nil {
		return r, err
	}
	one, all := first(came).Sub(begun), last(came, nodes).Sub(begun)
	r.rows = []row{
		{
			what: fmt.Sprintf("%d nodes at once, the first one registered", len(nodes)), measured: seconds(one),
			beside: "the last one " + seconds(all), ratio: ratio(times(one, all)), goal: "<= 20 s", met: one <= 20*time.Second,
		},
		{what: "all of them registered", measured: seconds(all)},
		{
			what:     fmt.Sprintf("%d nodes at once, sbatch to the job's first line", len(nodes)),
			measured: seconds(steps.first), beside: "slurmd registered on all of them " + seconds(steps.up),
			ratio: ratio(times(steps.first, steps.up)),
		},
		{what: "CPU on the control host for each node", measured: seconds(cpu / time.Duration(len(nodes)))},
	}
	if len(nodes) == 50 {
		r.rows[1].value = all.Seconds()
	}
	r.details = splitTable([]split{steps})
	return r, lab.release(ctx, nodes...)
}

func reimageGroups(s sizes) []cluster.NodeGroup {
	return []cluster.NodeGroup{cluster.Group("wide", "w", 0, s.reimages)}
}

// reimage compares many reimages at once with two other ways, for one node after another: the flow of the project's
// first version, and a plain run of Terraform and of the product's own playbooks.
func (b *bench) reimage(ctx context.Context) (report, error) {
	r := report{about: fmt.Sprintf(
		"`scontrol reboot` of %d nodes with a new instance for each, until all slurmds have registered again. Compared with "+
			"two flows for one node after another, each of which is measured on %d nodes and multiplied. **The old flow** is "+
			"that of the project's first version (bench/oldflow): for each request one `terraform apply -target`, and one run "+
			"of ordinary playbooks, with Ansible's defaults, on all nodes. **One after another** has the product's own "+
			"playbooks instead: `terraform apply -target`, and `ansible-playbook site.yml` on all nodes.",
		b.sizes.reimages, b.sizes.old,
	)}
	lab, err := b.lab(ctx)
	if err != nil {
		return r, err
	}
	nodes := numbered(reimageGroups(b.sizes)[0], 1, b.sizes.reimages)
	if err := lab.call(ctx, "enlarge", "wide", "--to", fmt.Sprint(len(nodes))); err != nil {
		return r, err
	}
	if _, err := lab.registered(ctx, nodes...); err != nil {
		return r, err
	}
	newest, err := lab.journal.Requests(ctx, 1)
	if err != nil {
		return r, err
	}
	begun := time.Now()
	if err := lab.slurm(
		"scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=reimage", strings.Join(nodes, ","),
	); err != nil {
		return r, err
	}
	came, err := lab.registered(ctx, nodes...)
	if err != nil {
		return r, err
	}
	took := last(came, nodes).Sub(begun)
	if err := lab.settled(ctx); err != nil {
		return r, err
	}
	b.say("%d reimages: %s", len(nodes), seconds(took))
	requests, applies, plays, err := lab.runsSince(ctx, newest[0].ID)
	if err != nil {
		return r, err
	}
	some := min(b.sizes.old, len(nodes)/2)
	mean := func(what string, nodes []string, flow func(context.Context, string) (time.Duration, error)) (
		time.Duration, error,
	) {
		var all time.Duration
		for _, node := range nodes {
			one, err := flow(ctx, node)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", what, err)
			}
			b.say("%s by %s: %s", node, what, seconds(one))
			all += one / time.Duration(len(nodes))
		}
		return all, nil
	}
	old, err := mean("the old flow", nodes[:some], lab.oldFlow)
	if err != nil {
		return r, err
	}
	single, err := mean("one after another", nodes[some:2*some], lab.oneAfterAnother)
	if err != nil {
		return r, err
	}
	faster, than := times(old*time.Duration(len(nodes)), took), times(single*time.Duration(len(nodes)), took)
	r.rows = []row{
		{
			what: fmt.Sprintf("%d reimages by scontrol reboot", len(nodes)), measured: seconds(took),
			beside: fmt.Sprintf("the old flow %d x %s", len(nodes), seconds(old)),
			ratio:  fmt.Sprintf("%.0f times as fast", faster), goal: ">= 50 times", met: faster >= 50,
		},
		{
			what: "the same", measured: seconds(took),
			beside: fmt.Sprintf("one after another %d x %s", len(nodes), seconds(single)),
			ratio:  fmt.Sprintf("%.0f times as fast", than),
		},
		{
			what: fmt.Sprintf("runs of Terraform for %d requests", requests), measured: fmt.Sprint(applies), goal: "<= 3",
			met: applies <= 3,
		},
		{
			what: fmt.Sprintf("runs of the playbooks for %d requests", requests), measured: fmt.Sprint(plays), goal: "<= 3",
			met: plays <= 3,
		},
	}
	if err := lab.call(ctx, "shrink", "wide", "--to", "0"); err != nil {
		return r, err
	}
	return r, lab.settled(ctx)
}

// runsSince counts the updates since a request, and the runs of Terraform and Ansible that served them. A run that
// serves several plans has an event with the same time in each.
func (l *lab) runsSince(ctx context.Context, before reconfigure.RequestID) (requests, applies, plays int, err error) {
	all, err := l.journal.Requests(ctx, 1000)
	if err != nil {
		return 0, 0, 0, err
	}
	runs := map[string]map[time.Time]bool{"Terraform": {}, "Ansible": {}}
	for _, r := range all {
		if r.ID <= before || r.Mode != reconfigure.Update {
			continue
		}
		requests++
		events, err := l.journal.Events(ctx, r.ID, 0)
		if err != nil {
			return 0, 0, 0, err
		}
		for _, e := range events {
			program, _, _ := strings.Cut(e.Message, ": ")
			if of := runs[program]; of != nil && e.Node == "" {
				of[e.Time] = true
			}
		}
	}
	return requests, len(runs["Terraform"]), len(runs["Ansible"]), nil
}

// oldFlow returns how long the flow of the project's first version takes for one node.
func (l *lab) oldFlow(ctx context.Context, node string) (time.Duration, error) {
	dir, err := l.otherImage(ctx, node)
	if err != nil {
		return 0, err
	}
	top := filepath.Dir(filepath.Dir(dir))
	defer os.RemoveAll(top)
	flow := filepath.Join(top, "oldflow")
	if err := os.CopyFS(flow, os.DirFS(filepath.Join(l.checkout, "bench", "oldflow"))); err != nil {
		return 0, err
	}
	if out, err := exec.CommandContext(ctx, "chown", "--recursive", "--reference="+dir, top).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	script := l.OnControlHost(
		ctx, flow, "env", "OS_CLIENT_CONFIG_FILE="+filepath.Join(l.Site, "clouds.yaml"),
		fmt.Sprintf("TERRAFORM=%v", l.Declaration.Reconfigure["terraform"]), filepath.Join(flow, "reimage.sh"),
		filepath.Join(flow, "lock"), dir, node, filepath.Join(l.Site, "inventory.json"), filepath.Join(flow, "main.yml"),
	)
	begun := time.Now()
	if out, err := script.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	if _, err := l.registered(ctx, node); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	return took, l.learnHostKey(ctx, node) // as the product would
}

// otherImage copies the root module and its state, and declares another image for a node in the copy.
func (l *lab) otherImage(ctx context.Context, node string) (module string, err error) {
	dir, err := l.copyModule(ctx)
	if err != nil {
		return "", err
	}
	file, err := l.nodesFile(ctx, dir, node)
	if err != nil {
		return "", err
	}
	return dir, changeSpec(file, node, "image_id", cluster.ImageID(cluster.ImageV2))
}

// oneAfterAnother returns how long one node takes by hand, with the product's own playbooks. Terraform uses a copy of
// the module and its state.
func (l *lab) oneAfterAnother(ctx context.Context, node string) (time.Duration, error) {
	dir, err := l.otherImage(ctx, node)
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(filepath.Dir(filepath.Dir(dir)))
	begun := time.Now()
	apply := l.TerraformIn(
		ctx, dir, "apply", "-input=false", "-auto-approve", "-no-color",
		fmt.Sprintf("-target=openstack_compute_instance_v2.node[%q]", node),
	)
	if out, err := apply.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	if err := l.learnHostKey(ctx, node); err != nil {
		return 0, err
	}
	play := l.OnControlHost(ctx, filepath.Join(l.Site, "ansible"), "ansible-playbook", "site.yml")
	if out, err := play.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	_, err = l.registered(ctx, node)
	return time.Since(begun), err
}

// learnHostKey waits until a node answers, and replaces its old host key.
func (l *lab) learnHostKey(ctx context.Context, node string) error {
	servers := l.Cloud.Servers()
	i := slices.IndexFunc(servers, func(s labcloud.Server) bool { return s.Name == node })
	if i < 0 {
		return fmt.Errorf("%s has no instance", node)
	}
	address := servers[i].Addresses[0].String()
	var keys []byte
	err := until(ctx, patience, 200*time.Millisecond, node+" answers by SSH", func() (bool, error) {
		var err error
		keys, err = exec.CommandContext(ctx, "ssh-keyscan", "-T", "2", address).Output()
		return err == nil && len(keys) > 0, err
	})
	if err != nil {
		return err
	}
	file := filepath.Join(l.StateDir(), "known_hosts")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var rest strings.Builder
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
		if hosts, _, _ := strings.Cut(lines.Text(), " "); hosts != address {
			fmt.Fprintln(&rest, lines.Text())
		}
	}
	return os.WriteFile(file, []byte(rest.String()+string(keys)), 0o600)
}
