package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/procs"
	"github.com/eiffel-hpc/eiffel/lab/tools"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// site is a large cluster without machines: its cloud's servers exist only in the API, Slurm's answers come from files,
// and the playbooks end at once. Terraform, its provider and states, the journal and the product are real.
type site struct {
	dir    string
	size   int
	absent int // this many of its last nodes have no instance
	// perState is the number of nodes in a Terraform state.
	perState int
	cloud    *labcloud.Cloud
	client   client
	server   *httptest.Server
	env      []string
	sshd     *sshd
	journal  *journal.Journal
	network  netip.Prefix
}

// The names of a site's resources.
const (
	siteImage   = "11111111-0000-4000-8000-000000000001"
	siteFlavor  = "flavor-small"
	siteGroup   = "standard"
	sitePrefix  = "node"
	siteControl = "ctl"
	// siteKey is useless: its private half was deleted.
	siteKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIpIBPyqOgkM2XD5O5rIfkRy/kyCQjwPK9r2xHg0yCkC nobody"
)

// resumeTimeout is the ResumeTimeout of the sites.
const resumeTimeout = 15 * time.Minute

// nodeName returns the name of a site's node, from 1.
func nodeName(i int) string { return fmt.Sprintf("%s%04d", sitePrefix, i) }

// newSite makes a cluster of a size. All of its nodes are cloud nodes, and all but the absent ones have an instance.
func (b *bench) newSite(ctx context.Context, size, absent int) (s *site, err error) {
	paths, err := tools.Find(b.checkout)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/var/tmp", "eiffel-bench-")
	if err != nil {
		return nil, err
	}
	s = &site{
		dir: dir, size: size, absent: absent, perState: b.sizes.perState, network: netip.MustParsePrefix("127.60.0.0/16"),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.cloud, err = labcloud.New(labcloud.Config{
		Project: "lab", User: "lab", Password: "lab",
		// Addresses of the loopback interface, so that nothing leaves this machine.
		Networks: []labcloud.Network{{Name: "cluster", CIDR: s.network, Gateway: netip.MustParseAddr("127.60.0.1")}},
		Flavors:  []labcloud.Flavor{{ID: siteFlavor, Name: "small", VCPUs: 2, RAM: 2048, Disk: 10}},
		Images:   []labcloud.Image{{ID: siteImage, Name: "image"}},
		Timings:  labcloud.Timings{Build: time.Second, Delete: time.Second},
	}, labcloud.Null{})
	if err != nil {
		return s, err
	}
	if s.client, err = newClient(s.cloud); err != nil {
		return s, err
	}
	s.server = httptest.NewServer(s.cloud.Handler())
	s.env = append(
		os.Environ(), "PATH="+s.file("stubs")+":"+os.Getenv("PATH"), "TF_CLI_CONFIG_FILE="+paths.TerraformRC,
		siteMark+"="+s.dir,
	)
	for _, step := range []func(context.Context, *bench, tools.Paths) error{s.checkOut, s.stubs, s.seed, s.grow} {
		if err := step(ctx, b, paths); err != nil {
			return s, err
		}
	}
	addresses := map[string]string{}
	for i := size - absent + 1; i <= size; i++ {
		if addresses[nodeName(i)], err = s.client.address(nodeName(i)); err != nil {
			return s, err
		}
	}
	if s.sshd, err = newSSHD(s.cloud, addresses); err != nil {
		return s, err
	}
	s.journal, err = journal.Open(ctx, s.file("state"))
	return s, err
}

// site returns the cluster of a size, shared by all benchmarks.
func (b *bench) site(ctx context.Context, size int) (*site, error) {
	if s := b.sites[size]; s != nil {
		return s, nil
	}
	b.say("make a cluster of %d nodes without machines", size)
	s, err := b.newSite(ctx, size, 1)
	if err != nil {
		return nil, err
	}
	b.sites[size] = s
	return s, nil
}

// siteMark is in the environment of every process of a site.
const siteMark = "EIFFEL_BENCH"

func (s *site) file(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// close ends the site's processes, and removes the site.
func (s *site) close() error {
	var errs []error
	if s.journal != nil {
		errs = append(errs, s.journal.Close())
	}
	_, err := procs.End(procs.Variable(siteMark + "=" + s.dir))
	errs = append(errs, err)
	if s.sshd != nil {
		errs = append(errs, s.sshd.close())
	}
	if s.cloud != nil {
		errs = append(errs, s.cloud.Close(context.Background()))
	}
	if s.server != nil {
		s.server.CloseClientConnections()
		s.server.Close()
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// write writes a file and creates its folder.
func (s *site) write(name, text string, mode fs.FileMode) error {
	return errors.Join(os.MkdirAll(filepath.Dir(s.file(name)), 0o755), os.WriteFile(s.file(name), []byte(text), mode))
}

// checkOut makes the cluster directory.
func (s *site) checkOut(ctx context.Context, b *bench, paths tools.Paths) error {
	for _, part := range []string{"terraform/openstack", "ansible"} {
		if err := os.CopyFS(s.file(part), os.DirFS(filepath.Join(b.checkout, part))); err != nil {
			return err
		}
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", s.file("bin", "reconfigure"), "./cmd/reconfigure")
	build.Dir = b.checkout
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build reconfigure: %w\n%s", err, out)
	}
	declaration := fmt.Sprintf(`cluster_name: bench
cloud: lab
control_host:
  {address: 127.0.0.1, port: 22, user: root, directory: %[1]s, host_key: %[7]s, authorized_keys: %[1]s/authorized_keys}
control_node: {name: %[2]s, image: image, flavor: small, network: cluster, floating_ip_network: ""}
login_user: debian
key_pair: {name: bench, public_key: "%[7]s"}
private_key_file: %[1]s/key
node_groups:
  - {name: %[3]s, prefix: %[4]s, width: 4, image: image, flavor: small, network: cluster, min_nodes: 0,
     max_nodes: %[5]d, keep_ports: true, features: [], gres: "", slurm: {CPUs: 2}}
partitions:
  - {name: main, groups: [%[3]s], default: true, slurm: {}}
slurm: {suspend_time: 600, suspend_timeout: 120, resume_timeout: %[9]d, resume_rate: 0, suspend_rate: 0}
name_resolution: hosts
nfs_shares: []
reconfigure: {state_directory: state, terraform: %[6]s, parallelism: 50, lock_timeout: 60, host_keys: accept-new,
  boot_timeout: 60, nodes_per_state: %[8]d}
`, s.dir, siteControl, siteGroup, sitePrefix, s.size, paths.Terraform, siteKey, s.perState,
		int(resumeTimeout.Seconds()))
	return errors.Join(
		s.write("group_vars/all.yml", declaration, 0o644), s.write("key", "", 0o600),
		s.write("clouds.yaml", string(s.cloud.CloudsYAML("lab", s.server.URL)), 0o600))
}

// stubs writes programs that replace the real ones. ssh runs its command on this machine, where Slurm's tools answer
// from files. ansible-playbook calls the real one, which reads the playbooks and the inventory and lists the hosts of
// each play; then it reports the nodes that come up as done, and marks them as registered in Slurm's answers.
func (s *site) stubs(context.Context, *bench, tools.Paths) error {
	last, end := s.file("slurm", "last"), s.file("slurm", "end")
	programs := map[string]string{
		"ssh": `#!/bin/sh
until case $1 in debian@*) true ;; *) false ;; esac; do shift; done
shift
exec sh -c "$*"
`,
		"states": `#!/bin/sh
printf '\n-- scontrol show nodes --json\n' && $1 && printf '\n-- squeue\n\n-- completed\n'
`,
		"hold": "#!/bin/sh\necho\nexec cat\n",
		"scontrol": fmt.Sprintf(`#!/bin/sh
case "$*" in
'show nodes --json %[1]s') cat %[2]s ;;
'show nodes --json'*) cat %[3]s ;;
*State=DRAIN*) mv %[4]s %[5]s; exit ;;
esac
cut -d ' ' -f 2- %[5]s | paste -sd ,
cat %[6]s
`, nodeName(s.size), s.file("slurm", "begin"), s.file("slurm", "others"), s.file("slurm", "drained"), last, end),
		"squeue": "#!/bin/sh\n",
		"ansible-playbook": fmt.Sprintf(`#!/bin/sh
hosts=%[1]s.$$
env -u RECONFIGURE_EVENTS %[2]s "$@" --list-hosts >$hosts 2>&1 || exit 1
exec 9>%[3]s.lock && flock 9
sed -n 's/^ *\(%[4]s[0-9]*\)$/\1/p' $hosts | sort -u >$hosts.names
awk -v boot="$(date +%%s)" -v up="$(cat %[5]s)" '
NR == FNR { done[$1] = 1; next }
$1 in done { line = up; gsub(/@NAME@/, $1, line); gsub(/@BOOT@/, boot, line); print line; next }
{ print }' $hosts.names %[3]s >%[3]s.new && mv %[3]s.new %[3]s
{
	echo '{"event": "playbook", "plays": 1}'
	echo '{"event": "play"}'
	sed 's/.*/{"event": "done", "host": "&"}/' $hosts.names
} >"$RECONFIGURE_EVENTS"
`, s.file("hosts"), realAnsible(), last, sitePrefix, s.file("slurm", "up")),
	}
	for name, text := range programs {
		if err := s.write("stubs/"+name, text, 0o755); err != nil {
			return err
		}
	}
	var others strings.Builder
	const begin = `{"nodes": [`
	others.WriteString(begin)
	for i := 1; i <= s.size-s.absent; i++ {
		others.WriteString(slurmNode(nodeName(i), "1750000000", "IDLE", "CLOUD") + ",\n")
	}
	return errors.Join(
		s.write("slurm/begin", begin, 0o644),
		s.write("slurm/others", others.String(), 0o644),
		s.write("slurm/end", `], "errors": []}`, 0o644),
		s.write("slurm/up", "@NAME@ "+slurmNode("@NAME@", "@BOOT@", "IDLE", "CLOUD"), 0o644),
		s.slurmSays("IDLE", "CLOUD", "POWERED_DOWN"))
}

// realAnsible returns the path of the real ansible-playbook.
func realAnsible() string {
	path, err := exec.LookPath("ansible-playbook")
	if err != nil {
		return "ansible-playbook"
	}
	return path
}

// slurmNode returns a node as `scontrol show nodes --json` of Slurm 25.11 shows it.
func slurmNode(name, boot string, state ...string) string {
	number := func(n string) string { return `{"set": true, "infinite": false, "number": ` + n + `}` }
	flags, _ := json.Marshal(state) // strings can be marshalled
	return strings.ReplaceAll(fmt.Sprintf(`{"name": %[1]q, "hostname": %[1]q, "address": %[1]q, "architecture": "x86_64",
"boards": 1, "boot_time": %[2]s, "cores": 2, "cpus": 2,
"cpu_load": 0, "features": [], "gres": "", "instance_id": "", "instance_type": "", "last_busy": %[3]s,
"next_state_after_reboot": ["INVALID"], "state": %[4]s,
"partitions": ["main"], "port": 6818, "real_memory": 1000, "reason": "", "reason_changed_at": %[3]s, 
"reason_set_by_user": "slurm", "resume_after": %[3]s,
"alloc_memory": 0, "alloc_cpus": 0, "alloc_idle_cpus": 2, "tres_used": "", "tres_weighted": 0.0,
"slurmd_start_time": %[2]s,
"tres": "cpu=2,mem=1000M,billing=2", "version": "25.11.0"}`, name, number(boot), number("0"), flags), "\n", " ")
}

// slurmSays sets Slurm's answer for the last nodes, with one line for each.
func (s *site) slurmSays(state ...string) error {
	var text strings.Builder
	for i := s.size - s.absent + 1; i <= s.size; i++ {
		text.WriteString(nodeName(i) + " " + slurmNode(nodeName(i), "0", state...) + "\n")
	}
	return s.write("slurm/last", text.String(), 0o644)
}

// busy marks the last node as ALLOCATED in Slurm's answers. It can be drained once.
func (s *site) busy() error {
	drained := nodeName(s.size) + " " + slurmNode(nodeName(s.size), "0", "MIXED", "CLOUD", "DRAIN")
	drained = strings.Replace(drained, `"reason": ""`, `"reason": "`+reconfigure.ReasonPrefix+` update"`, 1)
	return errors.Join(s.write("slurm/drained", drained, 0o644), s.slurmSays("MIXED", "CLOUD"))
}

// call is a call of the product.
func (s *site) call(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.file("bin", "reconfigure"), append([]string{"--dir", s.dir}, args...)...)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

func (s *site) do(ctx context.Context, args ...string) error {
	if out, err := s.call(ctx, args...).CombinedOutput(); err != nil {
		return s.failed(fmt.Sprint(args), out, err)
	}
	return nil
}

// failed returns the output of a call and of the worker.
func (s *site) failed(what string, out []byte, err error) error {
	const last = 2000
	log, _ := os.ReadFile(s.file("state", "log", "worker.log"))
	return fmt.Errorf("reconfigure %s: %w\n%s\n%s", what, err, out, log[max(0, len(log)-last):])
}

// settled waits until every request has its outcome and no worker is left.
func (s *site) settled(ctx context.Context) error {
	return until(ctx, patience, 20*time.Millisecond, "no request is open and no worker is left", func() (bool, error) {
		pending, err := s.journal.Pending(ctx)
		return err == nil && len(pending) == 0 && s.journal.Holder(ctx) == "", err
	})
}

// terraform calls Terraform in a workspace, with a data folder of its own.
func (s *site) terraform(ctx context.Context, paths tools.Paths, workspace, rc string, args ...string) error {
	cmd := exec.CommandContext(ctx, paths.Terraform, args...)
	cmd.Dir = s.file("terraform", "openstack")
	cmd.Env = append(
		s.env, "TF_CLI_CONFIG_FILE="+rc, "OS_CLIENT_CONFIG_FILE="+s.file("clouds.yaml"), "TF_WORKSPACE="+workspace,
	)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("terraform %v: %w\n%s", args, err, out)
	}
	return nil
}

// shard returns the Terraform workspace of a node, as the product names it.
func (s *site) shard(i int) string {
	if s.size <= s.perState {
		return reconfigure.DefaultShard
	}
	return fmt.Sprintf("%s-%d", siteGroup, (i-1)/s.perState)
}

// seedName is the node that all others are copies of. This text occurs nowhere else in a state.
const seedName = "seed-of-all-others"

func (s *site) nodeSpec(shard string) reconfigure.Spec {
	return reconfigure.Spec{
		Group: siteGroup, ImageID: siteImage, FlavorID: siteFlavor, NetworkID: s.client.networkID, Shard: shard,
	}
}

// seed lets Terraform make the control node, and one node in the first shard.
func (s *site) seed(ctx context.Context, _ *bench, paths tools.Paths) error {
	if err := s.terraform(ctx, paths, "default", paths.QuickTerraformRC, "init", "-input=false"); err != nil {
		return err
	}
	control := s.nodeSpec("")
	control.Group = "control"
	all := map[string]reconfigure.Spec{siteControl: control, seedName: s.nodeSpec(s.shard(1))}
	apply := func(workspace, group string) error {
		if err := s.writeMaps(all, group); err != nil {
			return err
		}
		return s.terraform(
			ctx, paths, workspace, paths.QuickTerraformRC, "apply", "-input=false", "-auto-approve", "-no-color",
		)
	}
	if err := apply("default", ""); err != nil {
		return err
	}
	if s.shard(1) == reconfigure.DefaultShard {
		return nil
	}
	state, err := s.readState("default")
	if err != nil {
		return err
	}
	return apply(s.shard(1), state.first("openstack_networking_secgroup_v2", "")["id"].(string))
}

// writeMaps writes the nodes of each workspace to its file, as the product does.
func (s *site) writeMaps(all map[string]reconfigure.Spec, group string) error {
	var errs []error
	for _, shard := range reconfigure.Shards(all) {
		nodes, ports := reconfigure.InShard(all, shard), map[string]reconfigure.Spec{}
		for name, spec := range nodes {
			if !spec.HasInstance() {
				ports[name] = spec
				delete(nodes, name)
			}
		}
		name, content := "nodes/"+shard+".json", map[string]any{"nodes": nodes, "kept_ports": ports}
		if shard == reconfigure.DefaultShard {
			name = variablesFile
			if group != "" {
				content["shared"] = map[string]any{"security_group_id": group}
			}
		}
		text, err := json.Marshal(content)
		errs = append(errs, err, s.write("terraform/openstack/"+name, string(text), 0o644))
	}
	return errors.Join(errs...)
}

// tfstate is a Terraform state file.
type tfstate map[string]any

func (s *site) stateFile(workspace string) string {
	if workspace == "default" {
		return s.file("terraform", "openstack", "terraform.tfstate")
	}
	return s.file("terraform", "openstack", "terraform.tfstate.d", workspace, "terraform.tfstate")
}

func (s *site) readState(workspace string) (tfstate, error) {
	text, err := os.ReadFile(s.stateFile(workspace))
	if err != nil {
		return nil, err
	}
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	state := tfstate{}
	return state, numbers.Decode(&state)
}

// resource returns the resource of a type.
func (t tfstate) resource(kind string) map[string]any {
	for _, r := range t["resources"].([]any) {
		if r := r.(map[string]any); r["type"] == kind {
			return r
		}
	}
	return map[string]any{}
}

// first returns the attributes of a resource's instance with a key; without a key, of the first instance.
func (t tfstate) first(kind, key string) map[string]any {
	instances, _ := t.resource(kind)["instances"].([]any)
	for _, i := range instances {
		if i := i.(map[string]any); key == "" || i["index_key"] == key {
			return i["attributes"].(map[string]any)
		}
	}
	return nil
}

// kinds are the types of resources that a node has in a state.
var kinds = []string{"openstack_networking_port_v2", "openstack_compute_instance_v2"}

// grow adds all nodes to the cloud and to the states, as copies of the seed, which is removed. An empty plan proves
// that Terraform accepts them.
func (s *site) grow(ctx context.Context, b *bench, paths tools.Paths) error {
	seeded, err := s.readState(orDefault(s.shard(1)))
	if err != nil {
		return err
	}
	templates := map[string]string{}
	for _, kind := range kinds {
		for _, i := range seeded.resource(kind)["instances"].([]any) {
			if i.(map[string]any)["index_key"] == seedName {
				text, err := json.Marshal(i)
				if err != nil {
					return err
				}
				templates[kind] = string(text)
			}
		}
	}
	port, server := seeded.first(kinds[0], seedName), seeded.first(kinds[1], seedName)
	address := port["all_fixed_ips"].([]any)[0].(string)
	groups := port["security_group_ids"].([]any)
	copies := map[string]map[string][]json.RawMessage{} // by workspace and kind
	all, group := map[string]reconfigure.Spec{}, ""
	if s.shard(1) != reconfigure.DefaultShard {
		group = groups[0].(string)
	}
	for i := 1; i <= s.size; i++ {
		name, workspace := nodeName(i), orDefault(s.shard(i))
		made, err := s.client.node(name, groups, i <= s.size-s.absent)
		if err != nil {
			return err
		}
		replace := strings.NewReplacer(seedName, name, port["id"].(string), made.port, server["id"].(string), made.server,
			port["mac_address"].(string), made.mac, `"`+address+`"`, `"`+made.address+`"`)
		if copies[workspace] == nil {
			copies[workspace] = map[string][]json.RawMessage{kinds[0]: {}, kinds[1]: {}}
		}
		spec := s.nodeSpec(s.shard(i))
		copies[workspace][kinds[0]] = append(
			copies[workspace][kinds[0]], json.RawMessage(replace.Replace(templates[kinds[0]])),
		)
		if i > s.size-s.absent {
			all[name] = reconfigure.Spec{Group: spec.Group, NetworkID: spec.NetworkID, Shard: spec.Shard}
			continue
		}
		copies[workspace][kinds[1]] = append(
			copies[workspace][kinds[1]], json.RawMessage(replace.Replace(templates[kinds[1]])),
		)
		all[name] = spec
	}
	control := s.nodeSpec("")
	control.Group = "control"
	all[siteControl] = control
	for workspace, of := range copies {
		if err := s.writeState(workspace, seeded, of); err != nil {
			return err
		}
	}
	if err := errors.Join(
		s.client.remove(ctx, server["id"].(string), port["id"].(string)), s.client.active(ctx),
	); err != nil {
		return err
	}
	if err := s.writeMaps(all, group); err != nil {
		return err
	}
	return s.terraform(
		ctx, paths, orDefault(s.shard(s.size)), paths.TerraformRC, "plan", "-input=false", "-no-color", "-detailed-exitcode",
	)
}

func orDefault(shard string) string {
	if shard == reconfigure.DefaultShard {
		return "default"
	}
	return shard
}

// writeState replaces the seed with copies.
func (s *site) writeState(workspace string, seeded tfstate, of map[string][]json.RawMessage) error {
	state := tfstate{}
	for key, value := range seeded {
		state[key] = value
	}
	if workspace != orDefault(s.shard(1)) {
		state["lineage"] = uuid.NewString()
	}
	var resources []any
	for _, r := range seeded["resources"].([]any) {
		changed := map[string]any{}
		for key, value := range r.(map[string]any) {
			changed[key] = value
		}
		if some := of[changed["type"].(string)]; some != nil {
			var all []any
			for _, i := range changed["instances"].([]any) {
				if i.(map[string]any)["index_key"] != seedName {
					all = append(all, i)
				}
			}
			for _, one := range some {
				all = append(all, one)
			}
			changed["instances"] = all
		}
		resources = append(resources, changed)
	}
	state["resources"] = resources
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	file := s.stateFile(workspace)
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o600))
}
