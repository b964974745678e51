package slurmconf_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/await"
	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/machine"
	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/lab/scratch"
	"github.com/eiffel-hpc/eiffel/lab/tools"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
)

var update = flag.Bool("update", false, "write the results of the trials to the table in the documents")

// table is the page with the results.
const table = "../../docs/how-it-works/settings.md"

// release is a release of Slurm.
type release struct {
	name    string
	column  int // in the table
	network byte
	base    func(tools.Paths) string
}

var releases = []release{
	{"22.05", 2, 21, func(p tools.Paths) string { return p.Image }},
	{"24.11", 3, 22, func(p tools.Paths) string { return p.Trixie }},
}

// The results of a trial.
const (
	goOn     = "jobs go on"
	end      = "**jobs end**"
	notThere = "no such setting"
	notTried = "not tried"
)

// change is a change that is tried and then undone. A value is empty if the setting is missing.
type change struct{ name, from, to string }

// TestHarmlessSettings makes all changes that package slurmconf regards as harmless while a job with a step runs and
// others wait, and restarts slurmctld and slurmd as the playbooks do. The jobs must survive: the running job starts
// another step and succeeds. The results must be those in the table of the documents.
func TestHarmlessSettings(t *testing.T) {
	paths := needs.Systemd(t, "../..")
	for _, release := range releases {
		t.Run(release.name, func(t *testing.T) {
			r := newRig(t, release, release.base(paths))
			results := map[string]string{}
			together, alone := split(changes(t))
			r.find(together, results)
			r.find(alone, results)
			for _, c := range changes(t) {
				if results[c.name] == end {
					t.Errorf("%s from %q to %q: jobs end", c.name, c.from, c.to)
				}
			}
			if *update {
				writeTable(t, release.column, results)
			}
			rows := readTable(t)
			for name, result := range results {
				if row := rows[name]; row == nil || row[release.column] != result {
					t.Errorf("%s: the result is %q, and the table has %q", name, result, row)
				}
			}
		})
	}
}

// TestTheTableHasAllHarmlessSettings compares the table with the rules.
func TestTheTableHasAllHarmlessSettings(t *testing.T) {
	rows := readTable(t)
	for _, c := range changes(t) {
		row := rows[c.name]
		if row == nil {
			t.Errorf("%s is not in the table: run this package's tests with -update", c.name)
			continue
		}
		if row[1] != c.cell() {
			t.Errorf("%s: the table has %q, and %q is tried", c.name, row[1], c.cell())
		}
		delete(rows, c.name)
	}
	for name := range rows {
		t.Errorf("%s is in the table, and is not known to be harmless", name)
	}
}

func (c change) cell() string {
	if c.from == c.to {
		return "accounting with slurmdbd, on and off"
	}
	shown := func(value string) string {
		if value == "" {
			return "not set"
		}
		if words := strings.Split(value, ","); len(words) > 6 {
			for i, word := range words {
				words[i], _, _ = strings.Cut(word, "=")
			}
			value = strings.Join(words, ", ")
			return value
		}
		return "`" + value + "`"
	}
	return shown(c.from) + " ↔ " + shown(c.to)
}

// find tries changes together, and, if jobs end, each half of them.
func (r *rig) find(all []change, results map[string]string) {
	r.Helper()
	unknown := r.unknown(all)
	all = slices.DeleteFunc(slices.Clone(all), func(c change) bool {
		if unknown[strings.ToLower(c.name)] {
			results[c.name] = notThere
		}
		return unknown[strings.ToLower(c.name)]
	})
	if len(all) == 0 {
		return
	}
	err := r.try(all)
	switch {
	case err == nil:
		for _, c := range all {
			results[c.name] = goOn
		}
	case len(all) == 1:
		r.Logf("%+v: %v", all[0], err)
		results[all[0].name] = end
	default:
		r.Logf("%d changes: %v", len(all), err)
		r.find(all[:len(all)/2], results)
		r.find(all[len(all)/2:], results)
	}
}

// rig is a machine with a slurmctld and a slurmd.
type rig struct {
	testing.TB
	host *machine.Host
}

const name = "ctl"

func newRig(t testing.TB, release release, base string) *rig {
	t.Helper()
	dir := scratch.Dir(t, "/var/tmp", "eiffel-slurmconf-")
	store, err := image.NewStore(filepath.Join(dir, "images"), base)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Add("image", map[string]string{"/etc/image-release": "test\n"}); err != nil {
		t.Fatal(err)
	}
	gateway := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 66, release.network, 1}), 24)
	host, err := machine.New(machine.Config{Name: fmt.Sprint("conf-", release.network),
		Dir: filepath.Join(dir, "machines"), Gateway: gateway, Images: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	address := netip.AddrFrom4([4]byte{10, 66, release.network, 10})
	err = host.Boot(t.Context(), labcloud.Machine{ID: name, Name: name, ImageID: "image",
		Addresses: []labcloud.Address{{MAC: fmt.Sprintf("fa:16:3e:00:%02x:0a", release.network),
			Prefix: netip.PrefixFrom(address, gateway.Bits()), Gateway: gateway.Addr()}}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{TB: t, host: host}
	r.until("the machine has booted", func() bool { return r.command("pgrep", "-x", "sshd").Run() == nil })
	r.on("sh", "-c", `
mkdir -p /etc/munge /run/munge /var/log/munge /var/lib/munge /etc/slurm /var/log/slurm
head -c 64 /dev/urandom >/etc/munge/munge.key
chown -R munge: /etc/munge /run/munge /var/log/munge /var/lib/munge; chmod 400 /etc/munge/munge.key
hostname ctl; echo '127.0.0.1 ctl localhost' >/etc/hosts; chown slurm /var/log/slurm
printf '#!/bin/sh\nexit 0\n' >/usr/local/bin/ok; chmod 755 /usr/local/bin/ok
setpriv --reuid munge --regid munge --clear-groups munged --force </dev/null >/dev/null 2>&1 &
`)
	if version := r.on("slurmctld", "-V"); !strings.Contains(version, release.name+".") {
		t.Fatalf("the machine has %s", version)
	}
	r.until("munged answers", func() bool { return r.command("sh", "-c", "munge -n | unmunge").Run() == nil })
	return r
}

func (r *rig) command(argv ...string) *exec.Cmd { return r.host.Command(name, argv...) }

func (r *rig) on(argv ...string) string {
	r.Helper()
	out, err := r.command(argv...).CombinedOutput()
	if err != nil {
		r.Fatalf("%v: %v: %s", argv, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *rig) until(what string, holds func() bool) {
	r.Helper()
	if !await.Until(r.Context(), patience, holds) {
		r.Fatalf("not within %s: %s", patience, what)
	}
}

// patience is long, since a computer may be busy.
const patience = 3 * time.Minute

// conf returns slurm.conf with one side of the changes.
func conf(all []change, side func(change) string) string {
	text := `ClusterName=rig
SlurmctldHost=ctl
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
`
	for _, c := range all {
		if value := side(c); value != "" {
			text += c.name + "=" + value + "\n"
		}
	}
	return text + `NodeName=ctl CPUs=4 RealMemory=1000 NodeAddr=127.0.0.1
NodeName=cloud1 CPUs=4 RealMemory=1000 State=CLOUD
PartitionName=main Nodes=ctl Default=YES
PartitionName=other Nodes=ctl,cloud1
`
}

func from(c change) string { return c.from }
func to(c change) string   { return c.to }

// unknown returns which of the settings, in lower case, slurmctld does not have.
func (r *rig) unknown(all []change) map[string]bool {
	r.Helper()
	r.stop()
	r.clear()
	unknown := map[string]bool{}
	r.write(conf(append(slices.Clone(all), change{name: "NoSuchSetting"}), func(change) string { return "1" }))
	out, _ := r.command("timeout", "--kill-after=10", "60", "slurmctld", "-D").CombinedOutput()
	for _, found := range regexp.MustCompile(`unrecognized key: (\S+)`).FindAllStringSubmatch(string(out), -1) {
		unknown[strings.ToLower(found[1])] = true
	}
	return unknown
}

// try makes changes, and undoes them. The error says which jobs ended.
func (r *rig) try(all []change) error {
	r.Helper()
	r.stop()
	r.clear()
	r.write(conf(all, from))
	if err := r.start(); err != nil {
		return fmt.Errorf("before the change: %w", err)
	}
	for _, side := range []func(change) string{to, from} {
		if err := r.changeTo(conf(all, side)); err != nil {
			return err
		}
	}
	return nil
}

// changeTo changes slurm.conf while jobs run and wait.
func (r *rig) changeTo(text string) error {
	r.Helper()
	r.on("rm", "-f", "/tmp/go", "/tmp/pid")
	sbatch := func(args ...string) string {
		return r.on(append([]string{"sbatch", "--parsable", "--chdir=/tmp", "--output=/tmp/out", "--mem=10"}, args...)...)
	}
	running := sbatch("--ntasks=2",
		"--wrap=srun sleep 1000 & echo $$ >/tmp/pid; until [ -e /tmp/go ]; do sleep 0.2; done; "+
			"kill -0 $! && kill $!; srun --overlap true")
	waiting := []string{sbatch("--begin=now+1hour", "--wrap=true"), sbatch("--partition=other", "--begin=now+1hour", "--array=1-20",
		"--wrap=true"), sbatch("--dependency=afterok:"+running, "--hold", "--wrap=true")}
	defer func() {
		_ = r.command("sh", "-c", "squeue --noheader --all --format=%A | sort -u | xargs -r scancel").Run()
		await.Until(r.Context(), patience, func() bool {
			out, err := r.command("squeue", "--noheader", "--all").Output()
			return err == nil && len(out) == 0
		})
	}()
	if !await.Until(r.Context(), patience, func() bool {
		return r.command("test", "-s", "/tmp/pid").Run() == nil && strings.Contains(r.steps(), running+".0")
	}) {
		return fmt.Errorf("the job does not begin: %s\n%s", r.on("scontrol", "show", "job", running), r.log())
	}
	r.stop()
	r.write(text)
	if err := r.start(); err != nil {
		return err
	}
	job := r.on("scontrol", "--oneliner", "show", "job", running)
	if !strings.Contains(job, "JobState=RUNNING") || !strings.Contains(job, "Restarts=0") {
		return errors.New("the job does not run any more: " + job)
	}
	if steps := r.steps(); !strings.Contains(steps, running+".0") {
		return errors.New("its step does not run any more: " + steps)
	}
	for i, id := range waiting {
		if tasks := len(strings.Fields(r.on("squeue", "--noheader", "--all", "--array", "--states=PENDING", "--format=%i",
			"--jobs="+id))); tasks != []int{1, 20, 1}[i] {
			return fmt.Errorf("of job %s, %d wait", id, tasks)
		}
	}
	r.on("touch", "/tmp/go")
	await.Until(r.Context(), patience, func() bool {
		out, err := r.command("scontrol", "--oneliner", "show", "job", running).Output()
		job = string(out)
		return err == nil && !strings.Contains(job, "JobState=RUNNING") && !strings.Contains(job, "JobState=COMPLETING")
	})
	if !strings.Contains(job, "JobState=COMPLETED") || !strings.Contains(job, "ExitCode=0:0") {
		return fmt.Errorf("the job has not ended well: %s\n%s", job, r.on("cat", "/tmp/out"))
	}
	return nil
}

func (r *rig) steps() string {
	out, _ := r.command("squeue", "--noheader", "--all", "--steps", "--format=%i").Output()
	return string(out)
}

// write writes slurm.conf.
func (r *rig) write(text string) {
	r.Helper()
	cmd := r.command("sh", "-c", "cat >/etc/slurm/slurm.conf; echo CgroupPlugin=cgroup/v1 >/etc/slurm/cgroup.conf; "+
		"echo SwitchName=all Nodes=ctl,cloud1 >/etc/slurm/topology.conf")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Fatalf("%v: %s", err, out)
	}
}

// clear removes all state of Slurm.
func (r *rig) clear() {
	r.Helper()
	r.on("sh", "-c", "pkill -9 slurmstepd; rm -rf /var/lib/slurm /var/log/slurm/*; install -d -o slurm /var/lib/slurm "+
		"/var/lib/slurm/slurmctld; install -d /var/lib/slurm/slurmd")
}

// stop ends slurmctld and slurmd, but not the steps.
func (r *rig) stop() {
	r.Helper()
	_ = r.command("pkill", "-x", "slurmctld|slurmd").Run()
	r.until("the daemons have ended", func() bool { return r.command("pgrep", "-x", "slurmctld|slurmd").Run() != nil })
}

// start starts both, and waits until the node can be used. With a path, as systemd starts them: since 23.11 "scontrol
// reconfigure" executes the daemon's first argument again, or, if that is no path, the file behind it, which on Debian has
// another name (slurmctld-wlm), and stop would not find it.
func (r *rig) start() error {
	r.Helper()
	r.on("sh", "-c", "cd /var/log/slurm; /usr/sbin/slurmctld -D >ctld 2>&1 </dev/null & "+
		"/usr/sbin/slurmd -D >d 2>&1 </dev/null &")
	failed := false
	good := await.Until(r.Context(), patience, func() bool {
		if r.command("pgrep", "-x", "slurmctld").Run() != nil || r.command("pgrep", "-x", "slurmd").Run() != nil {
			failed = true
			return true
		}
		out, err := r.command("scontrol", "--oneliner", "show", "node", name).Output()
		state := regexp.MustCompile(`State=(\S+)`).FindStringSubmatch(string(out))
		return err == nil && state != nil && regexp.MustCompile(`^(IDLE|MIXED|ALLOCATED)(\+PLANNED)?$`).MatchString(state[1]) &&
			!strings.Contains(string(out), "SlurmdStartTime=None")
	})
	if failed || !good {
		out, _ := r.command("scontrol", "show", "node", name).Output()
		return fmt.Errorf("slurmctld or slurmd does not run: %s\n%s", out, r.log())
	}
	if out, err := r.command("grep", "-r", "killing old", "/var/log/slurm").Output(); err == nil {
		r.Fatalf("one was started while another one ran: %s", out)
	}
	return nil
}

func (r *rig) log() string {
	return r.on("sh", "-c", "tail -n 15 /var/log/slurm/ctld /var/log/slurm/d")
}

// changes returns the changes to try: one for each rule.
func changes(t testing.TB) []change {
	t.Helper()
	values := map[string][2]string{}
	for line := range strings.Lines(tried + apart) {
		if fields := strings.Fields(line); len(fields) > 0 {
			values[fields[0]] = [2]string{strings.Trim(fields[1], "-"), fields[2]}
		}
	}
	var all []change
	for _, harmless := range slurmconf.Harmless() {
		value, ok := values[harmless.Name]
		switch {
		case strings.HasPrefix(harmless.Name, "AccountingStorage"):
			all = append(all, change{harmless.Name, "", ""}) // TestAccounting
			continue
		case len(harmless.Words) > 0 && !ok:
			value = [2]string{"", words(harmless.Words)}
		case !ok:
			t.Errorf("no change of %s is tried", harmless.Name)
		}
		all = append(all, change{harmless.Name, value[0], value[1]})
		delete(values, harmless.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		t.Errorf("%s is tried, and not taken for harmless", name)
	}
	slices.SortFunc(all, func(a, b change) int {
		return strings.Compare(strings.ToLower(a.name), strings.ToLower(b.name))
	})
	return all
}

// split returns the changes that can be made together, and the others.
func split(all []change) (together, alone []change) {
	for _, c := range all {
		if c.from == c.to {
			continue
		}
		if strings.Contains(apart, "\n"+c.name+" ") {
			alone = append(alone, c)
		} else {
			together = append(together, c)
		}
	}
	return together, alone
}

// words returns a list with all of the words. Words that need a number get one.
func words(all []string) string {
	var list []string
	for _, word := range all {
		if number, ok := numbers[word]; ok {
			word += "=" + number
		}
		list = append(list, word)
	}
	return strings.Join(list, ",")
}

// readTable returns the cells of the table's rows, by setting.
func readTable(t testing.TB) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	_, list, _ := strings.Cut(string(text), tableHead)
	for line := range strings.Lines(list) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 {
			break
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[strings.Trim(cells[0], "`")] = cells
	}
	return rows
}

const tableHead = "| setting | tried change | Slurm 22.05 | Slurm 24.11 |\n|---|---|---|---|\n"

// writeTable writes the results of one release, and keeps those of the other one.
func writeTable(t testing.TB, column int, results map[string]string) {
	t.Helper()
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), tableHead)
	rows := readTable(t)
	out := before + tableHead
	for _, c := range changes(t) {
		cells := []string{"`" + c.name + "`", c.cell(), notTried, notTried}
		if c.from == c.to {
			cells[2] = goOn // TestAccounting
		}
		if row := rows[c.name]; row != nil && row[1] == c.cell() {
			copy(cells[2:], row[2:])
		}
		if result := results[c.name]; result != "" {
			cells[column] = result
		}
		out += "| " + strings.Join(cells, " | ") + " |\n"
	}
	if err := os.WriteFile(table, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}
