package config_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

var update = flag.Bool("update", false, "rewrite the expected problems in testdata, and the reference")

// shipped returns the declaration that comes with the project.
func shipped(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", config.File))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// directory makes a cluster directory with a declaration.
func directory(t testing.TB, declaration string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, config.File)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(declaration), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheShippedDeclarationLoads(t *testing.T) {
	t.Setenv("HOME", "/home/alice")
	dir := directory(t, shipped(t))
	got, err := config.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := reconfigure.Cluster{
		Name:           "eiffel",
		Provider:       "openstack",
		Cloud:          "openstack",
		LoginUser:      "debian",
		PrivateKeyFile: "/home/alice/.ssh/id_ed25519",
		Control: reconfigure.Control{
			Name:   "eiffel-control",
			Source: reconfigure.Source{Image: "debian-12", Flavor: "m1.medium", Network: "cluster"},
		},
		Groups: []reconfigure.NodeGroup{{
			Name:      "standard",
			Prefix:    "node",
			Width:     2,
			Source:    reconfigure.Source{Image: "debian-12", Flavor: "m1.large", Network: "cluster"},
			Fallbacks: []string{}, FallbackZones: []string{},
			Min: 2,
			Max: 20,

			KeepPorts:  true,
			WhenIdle:   reconfigure.IdleDelete,
			MaxStopped: 20,
			Features:   []string{"standard"},
			Slurm:      map[string]string{"cpus": "4", "realmemory": "7500"},
		}},
		Partitions: []reconfigure.Partition{{Name: "main", Groups: []string{"standard"}, Default: true,
			Slurm: map[string]string{"maxtime": "7-00:00:00"}}},
		Slurm: reconfigure.Timing{
			SuspendTime:    10 * time.Minute,
			SuspendTimeout: 2 * time.Minute,
			ResumeTimeout:  15 * time.Minute,
			Parameters:     []string{},
		},
		LaunchAtOnce: true,
		NFSShares:    []string{},
		AllowedCIDRs: []string{},
		Settings: reconfigure.Settings{
			NotifyClasses: []string{},
			StateDir:      filepath.Join(dir, "state"),
			Directory:     "/opt/eiffel", AuthorizedKeys: "~eiffel/.ssh/authorized_keys",
			ControlUser: "eiffel", ControlHosts: []string{"192.0.2.10"},
			Keep:        90 * 24 * time.Hour,
			Gather:      3 * time.Second,
			Interrupt:   true,
			Worker:      reconfigure.WorkerSelf,
			Reconcile:   5 * time.Minute,
			Parallelism: 50,
			LockTimeout: 10 * time.Minute,
			BootTimeout: 5 * time.Minute,
			Retries:     1,
			HostKeys:    reconfigure.HostKeysConsole,
			CoolDown:    2 * time.Minute,
			Breaker:     3,

			NodesPerState: 32,
			CanaryTime:    10 * time.Minute,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the shipped declaration (-want +got):\n%s", diff)
	}
}

// TestTheDeclarationReferenceIsCurrent compares docs/reference/declaration.md with the schema and the comments.
func TestTheDeclarationReferenceIsCurrent(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "reference", "declaration.md")
	want, err := config.Reference(shipped(t))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != want {
		t.Errorf("%s is out of date: run `make golden` (%v)", page, err)
	}
}

func TestAnAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`""`: 0, "12h": 12 * time.Hour, "7d": 7 * 24 * time.Hour, "9999d": 9999 * 24 * time.Hour,
		"1d12h": 36 * time.Hour, "90m": 90 * time.Minute, "36500d": 36500 * 24 * time.Hour,
		"7": -1, `"7"`: -1, "0d": -1, "30m": -1, "-1d": -1, "40000d": -1,
	} {
		declaration := strings.Replace(shipped(t), "    # max_age: 7d\n", "    max_age: "+text+"\n", 1)
		got, err := config.Load(directory(t, declaration))
		switch {
		case want < 0 && (err == nil || !strings.Contains(err.Error(), "max_age")):
			t.Errorf("%s: error %v", text, err)
		case want >= 0 && (err != nil || got.Groups[0].MaxAge != want):
			t.Errorf("%s: %+v, error %v", text, got.Groups, err)
		}
	}
}

// TestManyImagesOverOnePool declares the pool of docs/guides/images.md.
func TestManyImagesOverOnePool(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "images.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "    node_groups:\n      - {name: debian,")
	example, _, _ = strings.Cut(example, "\n\n")
	example = "node_groups:\n  - {name: debian," + strings.ReplaceAll(example, "\n    ", "\n")
	before, rest, _ := strings.Cut(shipped(t), "node_groups:\n")
	_, after, _ := strings.Cut(rest, "# Slurm's power saving")
	got, err := config.Load(directory(t, before+example+"\n#"+after))
	if err != nil {
		t.Fatal(err)
	}
	want := []reconfigure.Limit{{Groups: []string{"debian", "rocky"}, Max: 100}}
	if diff := cmp.Diff(want, got.Limits); diff != "" || len(got.Groups) != 2 || got.Groups[1].KeepPorts {
		t.Errorf("%+v, limits (-want +got):\n%s", got.Groups, diff)
	}
}

func TestLimits(t *testing.T) {
	_, rest, _ := strings.Cut(shipped(t), "\n# limits:\n")
	entry, _, _ := strings.Cut(rest, "\n\n")
	declaredLimit := "# limits:\n" + entry
	for text, want := range map[string]string{
		"- {groups: [standard], max: 10}":             "",
		"- {groups: [standard], max: 2}":              "",
		"- {groups: [standard], max: 1}":              "1 is below the 2 persistent nodes of these groups",
		"- {groups: [standart], max: 10}":             `there is no group "standart"; did you mean standard?`,
		"- {groups: [standard, standard], max: 10}":   "is a duplicate",
		"- {groups: [], max: 10}":                     "a limit has at least one group",
		"- {groups: [standard]}":                      "max: is missing",
		"- {groups: [standard], max: 10, maximum: 3}": "unknown key",
		"[]": "is empty",
	} {
		declaration := strings.Replace(shipped(t), declaredLimit, "limits:\n  "+text, 1)
		got, err := config.Load(directory(t, declaration))
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v", text, err)
		case want == "" && (err != nil || len(got.Limits) != 1 || got.Limits[0].String() != "standard"):
			t.Errorf("%s: %+v, error %v", text, got.Limits, err)
		}
	}
}

func TestAllProblemsAreReported(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no broken declarations in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yml"), func(t *testing.T) {
			broken, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = config.Load(directory(t, string(broken)))
			var problems *config.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("Load gave %v, want Problems", err)
			}
			golden := strings.TrimSuffix(file, ".yml") + ".problems"
			if *update {
				if err := os.WriteFile(golden, []byte(problems.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), problems.Error()+"\n"); diff != "" {
				t.Errorf("problems of %s (-want +got):\n%s", file, diff)
			}
		})
	}
}

// edits are small changes to the shipped declaration, each with the one problem that it causes; empty if it causes
// none.
var edits = []struct{ name, from, to, want string }{
	{"a group without persistent nodes", "min_nodes: 2", "min_nodes: 0", ""},
	{"a group of persistent nodes only", "min_nodes: 2", "min_nodes: 20", ""},
	{"a group that fills its width", "max_nodes: 20", "max_nodes: 99", ""},
	{"a group that does not fit its width", "max_nodes: 20", "max_nodes: 100",
		"node_groups[0].max_nodes: 100 has more digits than a node's number, which has width 2; lower max_nodes " +
			"or make width 3, which renames the nodes"},
	{"a minimum above the maximum", "min_nodes: 2", "min_nodes: 21",
		"node_groups[0].min_nodes: 21 is above max_nodes 20; lower min_nodes or raise max_nodes"},
	{"optional keys left out", "    features: [standard]        # for sbatch --constraint\n", "", ""},
	{"a required key left out", "login_user: debian", "", "login_user: is missing"},
	{"a misspelt key is not missing too", "login_user: debian", "loginuser: debian",
		"loginuser: unknown key; did you mean login_user?"},
	{"a misspelt optional key", "    gres: ", "    grse: ", "node_groups[0].grse: unknown key; did you mean gres?"},
	{"a partition over an unknown group", "groups: [standard]", "groups: [gpu]",
		`partitions[0].groups[0]: there is no group "gpu"`},
	{"a partition over a misspelt group", "groups: [standard]", "groups: [standart]",
		`partitions[0].groups[0]: there is no group "standart"; did you mean standard?`},
	{"a control node that a group may grow to", "name: eiffel-control", "name: node99",
		"control_node.name: node99 is a node name of group standard, node## (line N); use another name"},
	{"a control node beside a group", "name: eiffel-control", "name: node1", ""},
	{"a control node that is a group of the inventory", "name: eiffel-control", "name: control",
		`control_node.name: "control" is a name that the inventory already uses; use another name`},
	{"a wait too short for the boot", "resume_timeout: 900", "resume_timeout: 299",
		"slurm.resume_timeout: 299 is below reconfigure.boot_timeout 300; it must cover making the instance, its " +
			"boot and the playbooks"},
	{"a wait just long enough", "resume_timeout: 900", "resume_timeout: 300", ""},
	{"a wait longer than Slurm can keep", "resume_timeout: 900", "resume_timeout: 65534",
		"slurm.resume_timeout: 65534 is not between 1 and 65533"},
	{"a time that Ansible would take for a number", "MaxTime: 7-00:00:00", "MaxTime: 24:00:00",
		"partitions[0].slurm.MaxTime: Ansible does not read 24:00:00 as text without quotes; put it into quotes"},
	{"a time in quotes", "MaxTime: 7-00:00:00", `MaxTime: "24:00:00"`, ""},
	{"truth values and lists in slurm.conf", "MaxTime: 7-00:00:00", "Hidden: true, RootOnly: no, AllowGroups: [a, b]",
		""},
	{"text with blanks, quoted for slurm.conf", "MaxTime: 7-00:00:00", `QOS: '"a b"'`, ""},
	{"a misspelt setting of nodes", "CPUs: 4", "CPU: 4",
		"node_groups[0].slurm.CPU: unknown key: slurmctld of 22.05 and 24.11 would not start with it; did you mean " +
			"CPUs?"},
	{"a setting in another case", "MaxTime: 7-00:00:00", "Maxtime: 7-00:00:00", ""},
	{"an unknown setting of a partition", "MaxTime: 7-00:00:00", "Foo: bar",
		"partitions[0].slurm.Foo: unknown key: slurmctld of 22.05 and 24.11 would not start with it"},
	{"a setting of nodes that is not a number", "RealMemory: 7500", "RealMemory: 7.5G",
		`node_groups[0].slurm.RealMemory: "7.5G" is not a whole number in plain digits; the unit is MiB, as in 7500`},
	{"a setting of nodes with a fraction", "CPUs: 4", "CPUs: 4.5",
		`node_groups[0].slurm.CPUs: "4.5" is not a whole number in plain digits`},
	{"memory in GiB, by multiples of 1024", "RealMemory: 7500", "RealMemory: 7K", ""},
	{"an unknown setting of the cluster", "extra: {}", "extra: {MaxJobCuont: 5}",
		"slurm.extra.MaxJobCuont: unknown key: slurmctld of 22.05 and 24.11 would not start with it; did you mean " +
			"MaxJobCount?"},
	{"a prolog of the site", "extra: {}", "extra: {PrologSlurmctld: /site/prolog}", ""},
	{"prologs of the site", "extra: {}", "extra: {PrologSlurmctld: /site/prologs/*}",
		`slurm.extra.PrologSlurmctld: "/site/prologs/*" is not the absolute path of one program; with slurm.launch: ` +
			"at_once, the launch program calls it for each job"},
	{"a setting of a later release", "extra: {}", "extra: {NamespaceType: namespace/linux}", ""},
	{"a setting of nodes in a later release", "CPUs: 4", "Topology: default", ""},
	{"a setting of partitions in a later release", "MaxTime: 7-00:00:00", "Topology: default", ""},
	{"a setting of nodes in a later release, for the cluster", "extra: {}", "extra: {Parameters: x}",
		"slurm.extra.Parameters: unknown key: slurmctld of 22.05 and 24.11 would not start with it"},
	{"a setting of partitions in a later release, for nodes", "CPUs: 4", "Exclusive: user",
		"node_groups[0].slurm.Exclusive: unknown key: slurmctld of 22.05 and 24.11 would not start with it"},
	{"a setting of a later release, for a partition", "MaxTime: 7-00:00:00", "MetricsType: metrics/openmetrics",
		"partitions[0].slurm.MetricsType: unknown key: slurmctld of 22.05 and 24.11 would not start with it"},
	{"private data that hides cloud nodes", "extra: {}", "extra: {privatedata: jobs}",
		"slurm.extra.privatedata: must contain cloud, or Slurm does not find nodes that are powered down"},
	{"private data with cloud nodes", "extra: {}", "extra: {PrivateData: [jobs, Cloud]}", ""},
	{"a setting that is generated", "extra: {}", "extra: {resumeprogram: /bin/true}",
		"slurm.extra.resumeprogram: cannot be set here: it is generated from the scripts of this project"},
	{"networks that may reach the nodes", "nfs_shares: ", "allowed_cidrs: [192.0.2.0/24, 2001:db8::/32]\nnfs_shares: ",
		""},
	{"a host for a network", "nfs_shares: ", "allowed_cidrs: [192.0.2.7/24]\nnfs_shares: ",
		`allowed_cidrs[0]: "192.0.2.7/24" is not the network's first address; write 192.0.2.0/24`},
	{"an address for a network", "nfs_shares: ", "allowed_cidrs: [192.0.2.7]\nnfs_shares: ",
		`allowed_cidrs[0]: "192.0.2.7" is not a network in CIDR notation, such as 192.0.2.0/24 or 2001:db8::/32`},
	{"no network", "nfs_shares: ", "allowed_cidrs: []\nnfs_shares: ", "allowed_cidrs: is empty, so that this host could " +
		"not reach the nodes; add its network, or leave the key out to allow all addresses"},
	{"several resources", `gres: ""`, "gres: gpu:a100:4,gpu:t4:2,tmp:no_consume:100G", ""},
	{"a public key", `public_key: ""`, "public_key: ssh-ed25519 " +
		"AAAAC3NzaC1lZDI1NTE5AAAAIJJ7DTd3VKu3Kbbzz5SgtMVmRH6aZpbMzoBOnGDXBwzC alice", ""},
	{"a public key with options", `public_key: ""`,
		"public_key: restrict ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJJ7DTd3VKu3Kbbzz5SgtMVmRH6aZpbMzoBOnGDXBwzC",
		"key_pair.public_key: is not an OpenSSH public key, such as ssh-ed25519 AAAA… comment; copy the whole line of " +
			"the .pub file"},
	{"an IPv6 address", "address: 192.0.2.10", "address: 2001:db8::10", ""},
	{"a host name", "address: 192.0.2.10", "address: Control.example.org", ""},
	{"an unknown policy", "host_keys: console", "host_keys: accept_new",
		`reconfigure.host_keys: "accept_new" is not one of console, accept-new; did you mean accept-new?`},
	{"a journal in PostgreSQL", `journal: ""`,
		"journal: postgres://eiffel@db.example.org:5433/journal?sslmode=verify-full", ""},
	{"a journal behind a socket", `journal: ""`, "journal: postgres:///journal?host=/run/postgresql", ""},
	{"a journal of another kind", `journal: ""`, "journal: mysql://db/journal",
		"reconfigure.journal: is not the URL of a PostgreSQL database; write postgres://USER@HOST/DATABASE, or " +
			"nothing for a file in state_directory"},
	{"a journal that is a path", `journal: ""`, "journal: state/journal.db",
		"reconfigure.journal: is not the URL of a PostgreSQL database; write postgres://USER@HOST/DATABASE, or " +
			"nothing for a file in state_directory"},
	{"a journal that is no URL", `journal: ""`, `journal: "postgres://eiffel:se%cret@db/journal"`,
		"reconfigure.journal: is not a URL; write postgres://USER@HOST/DATABASE"},
	{"a journal without a database", `journal: ""`, "journal: postgres://db",
		"reconfigure.journal: names no database; write postgres://USER@HOST/DATABASE"},
	{"a password in public", `journal: ""`, "journal: postgres://eiffel:secret@db/journal",
		"reconfigure.journal: contains a password; put it into ~/.pgpass of the owner of this checkout instead"},
	{"a password among the parameters", `journal: ""`, "journal: postgres://db/journal?user=eiffel&password=secret",
		"reconfigure.journal: contains a password; put it into ~/.pgpass of the owner of this checkout instead"},
	{"a journal that is not declared", "  journal: \"\"\n", "", ""},
	{"requests kept forever", "keep_days: 90", "keep_days: 0", ""},
	{"requests not gathered", "gather_seconds: 3", "gather_seconds: 0", ""},
	{"requests gathered for too long", "gather_seconds: 3", "gather_seconds: 3601",
		"reconfigure.gather_seconds: 3601 is not between 0 and 3600"},
	{"a comparison each day", "reconcile_minutes: 5", "reconcile_minutes: 1440", ""},
	{"no comparison", "reconcile_minutes: 5", "reconcile_minutes: 0", ""},
	{"a negative interval of comparisons", "reconcile_minutes: 5", "reconcile_minutes: -5",
		"reconfigure.reconcile_minutes: -5 is not between 0 and 1440"},
	{"an interval of comparisons that is too long", "reconcile_minutes: 5", "reconcile_minutes: 1441",
		"reconfigure.reconcile_minutes: 1441 is not between 0 and 1440"},
	{"metrics at a port", `metrics: ""`, "metrics: 127.0.0.1:9758", ""},
	{"metrics at a socket", `metrics: ""`, "metrics: /run/eiffel/metrics", ""},
	{"metrics for everybody", `metrics: ""`, `metrics: "0.0.0.0:9758"`,
		`reconfigure.metrics: "0.0.0.0:9758" is not a port of the loopback address; write 127.0.0.1:9758, or the ` +
			"absolute path of a Unix socket, and let a proxy serve it to others"},
	{"metrics without a port", `metrics: ""`, "metrics: 127.0.0.1",
		`reconfigure.metrics: "127.0.0.1" is not a port of the loopback address; write 127.0.0.1:9758, or the ` +
			"absolute path of a Unix socket, and let a proxy serve it to others"},
	{"some classes to notify", `notify_classes: []`, "notify_classes: [no-ssh, finding, campaign]", ""},
	{"an unknown class to notify", `notify_classes: []`, "notify_classes: [no-shh]",
		`reconfigure.notify_classes[0]: "no-shh" is not one of quota, capacity, rate-limit, cloud-unavailable, missing, ` +
			"boot-timeout, no-ssh, playbook, ansible-failed, unhealthy, unregistered, state-locked, refused, unknown, busy, other, " +
			"finding, campaign; did you mean no-ssh?"},
	{"an unknown health check", `gres: ""`, "health_check: [disks, burn-in]",
		"node_groups[0].health_check[1]: there is no script ansible/files/health/burn-in; write it, or choose one of the " +
			"shipped ones: disks, gpus, memory"},
	{"a health check outside of its folder", `gres: ""`, "health_check: [../disks]",
		`node_groups[0].health_check[0]: "../disks" is not the name of a script: letters, digits and . _ -`},
	{"an interval without health checks", `gres: ""`, "health_interval: 1d",
		"node_groups[0].health_interval: the group declares no health_check; declare one, or leave health_interval out"},
	{"a short interval of health checks", `gres: ""`, "health_check: [disks]\n    health_interval: 10",
		"node_groups[0].health_interval: 10 is not between 60 and 2678400"},
	{"shipped health checks", `gres: ""`, "health_check: [disks, memory, gpus]\n    health_limit: 2m\n    health_interval: 1d", ""},
	{"spare nodes", `gres: ""`, "spare: 2\n    spare_hours: Mon-Fri 07:00-18:00, Sat 08:00-12:00", ""},
	{"spare hours that cannot be read", `gres: ""`, "spare: 2\n    spare_hours: 7-18",
		`node_groups[0].spare_hours: "7-18" is not in the form Mon-Fri 07:00-18:00; separate several of these by commas`},
	{"fallback zones", `gres: ""`, "availability_zone: a\n    fallback_zones: [b, c]", ""},
	{"fallback zones alone", `gres: ""`, "fallback_zones: [b]",
		"node_groups[0].fallback_zones: the group declares no availability_zone; declare it, or leave fallback_zones out"},
	{"a topology without a zone", "topology: none", "topology: zones",
		"slurm.topology: zones needs node_groups[0].availability_zone, and the group declares none"},
	{"metadata", `gres: ""`, `metadata: {role: compute, "a b": "1"}`, ""},
	{"metadata of reconfigure", `gres: ""`, "metadata: {eiffel_group: a}",
		"node_groups[0].metadata.eiffel_group: begins with eiffel_: these names belong to reconfigure"},
	{"metadata without a text", `gres: ""`, "metadata: {role: [a]}",
		"node_groups[0].metadata.role: must be text, but is a list"},
	{"spare hours alone", `gres: ""`, "spare_hours: Mon-Fri 07:00-18:00",
		"node_groups[0].spare_hours: the group declares no spare; declare it, or leave spare_hours out"},
	{"fewer spare nodes than none", `gres: ""`, "spare: -1", "node_groups[0].spare: -1 is not between 0 and 65536"},
	{"a worker started by systemd", "worker: self", "worker: systemd", ""},
	{"an unknown way to start a worker", "worker: self", "worker: cron",
		`reconfigure.worker: "cron" is not one of self, systemd`},
	{"requests kept for a negative time", "keep_days: 90", "keep_days: -1",
		"reconfigure.keep_days: -1 is not between 0 and 36500"},
	{"a time to cool down with a unit", "cool_down: 120", "cool_down: 2m", ""},
	{"a time to cool down that is too long", "cool_down: 120", "cool_down: 2d",
		"reconfigure.cool_down: 2d is not between 0 and 86400 whole seconds"},
	{"a time for the lock with a unit", "lock_timeout: 600", "lock_timeout: 10m", ""},
	{"a timeout with a unit, which slurm.conf would have", "resume_timeout: 900", "resume_timeout: 15m",
		`slurm.resume_timeout: must be a whole number in plain digits, but is the text "15m"; write seconds: 900`},
	{"a timeout with a unit, which Terraform computes with", "boot_timeout: 300", "boot_timeout: 5m",
		`reconfigure.boot_timeout: must be a whole number in plain digits, but is the text "5m"; write seconds: 300`},
	{"no time to cool down", "cool_down: 120", "cool_down: 0", ""},
	{"a negative time to cool down", "cool_down: 120", "cool_down: -1",
		"reconfigure.cool_down: -1 is not between 0 and 86400"},
	{"a breaker that never opens", "breaker: 3", "breaker: 0", ""},
	{"a breaker that is not a number", "breaker: 3", "breaker: never",
		`reconfigure.breaker: must be a whole number in plain digits, but is the text "never"`},
	{"neither cool-down nor breaker", "  cool_down: 120", "  # cool_down: 120", ""},
	{"all_or_nothing that is not a truth value", "all_or_nothing: false", "all_or_nothing: never",
		`partitions[0].all_or_nothing: must be true or false, but is the text "never"`},
	{"a misspelt key of a partition", "all_or_nothing: false", "all_or_nothin: true",
		"partitions[0].all_or_nothin: unknown key; did you mean all_or_nothing?"},
	{"no retry", "retries: 1", "retries: 0", ""},
	{"too many retries", "retries: 1", "retries: 10", "reconfigure.retries: 10 is not between 0 and 9"},
	{"retries that are not a number", "retries: 1", "retries: once",
		`reconfigure.retries: must be a whole number in plain digits, but is the text "once"`},
	{"a key of an existing control node alone", "  floating_ip_network: \"\"", "  user: root",
		"control_node.user: is only for a control node that exists: write control_node.existing too, or remove this key"},
	{"an alias", "flavor: m1.medium\n  network: cluster", "flavor: &f m1.medium\n  network: *f", ""},
	{"an alias of the value that contains it", "extra: {}", "extra: {MpiParams: &a [*a]}",
		"slurm.extra.MpiParams[0]: must be text, a number, true or false, but is a list"},
}

var lineNumber = regexp.MustCompile(`line \d+`)

func TestEachProblemIsReportedOnce(t *testing.T) {
	good := shipped(t)
	for _, e := range edits {
		t.Run(e.name, func(t *testing.T) {
			if strings.Count(good, e.from) < 1 {
				t.Fatalf("%q is not in the shipped declaration", e.from)
			}
			_, err := config.Load(directory(t, strings.Replace(good, e.from, e.to, 1)))
			got := ""
			var problems *config.Problems
			if errors.As(err, &problems) {
				for _, p := range *problems {
					got += p.Path + ": " + lineNumber.ReplaceAllString(p.Message, "line N")
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpareNodesNeedAWorkerThatCompares(t *testing.T) {
	spare := strings.Replace(shipped(t), `gres: ""`, "spare: 1", 1)
	for name, interval := range map[string]string{"never": "reconcile_minutes: 0", "left out": "# never"} {
		text := strings.Replace(spare, "reconcile_minutes: 5", interval, 1)
		_, err := config.Load(directory(t, text))
		if err == nil || !strings.Contains(err.Error(), "node_groups[0].spare: needs reconfigure.reconcile_minutes above 0") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPathsAreAbsolute(t *testing.T) {
	for _, c := range []struct{ name, path, want string }{
		{"in the home", "~/keys/id", "/home/alice/keys/id"},
		{"in the cluster directory", "keys/../id", "DIR/id"},
		{"absolute", "/keys/id", "/keys/id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("HOME", "/home/alice")
			dir := directory(t, strings.Replace(shipped(t), "~/.ssh/id_ed25519", c.path, 1))
			cluster, err := config.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Replace(c.want, "DIR", dir, 1); cluster.PrivateKeyFile != want {
				t.Errorf("%s became %s, want %s", c.path, cluster.PrivateKeyFile, want)
			}
		})
	}
}

// Programs that Slurm starts have no HOME; the home directory is in the password database too.
func TestTheHomeIsFoundWithoutHOME(t *testing.T) {
	t.Setenv("HOME", "")
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := config.Load(directory(t, shipped(t)))
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(me.HomeDir, ".ssh/id_ed25519"); cluster.PrivateKeyFile != want {
		t.Errorf("the key file is %s, want %s", cluster.PrivateKeyFile, want)
	}
}

func TestARelativeClusterDirectory(t *testing.T) {
	dir := directory(t, shipped(t))
	t.Chdir(dir)
	cluster, err := config.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(cluster.Settings.StateDir) {
		t.Errorf("the state directory is %s, want an absolute path", cluster.Settings.StateDir)
	}
}

func TestRequestsAreKeptForAsLongAsDeclared(t *testing.T) {
	for line, want := range map[string]time.Duration{"": 90 * 24 * time.Hour, "keep_days: 7": 7 * 24 * time.Hour,
		"keep_days: 0": 0} {
		t.Run(line, func(t *testing.T) {
			cluster, err := config.Load(directory(t, strings.Replace(shipped(t), "keep_days: 90", line, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if got := cluster.Settings.Keep; got != want {
				t.Errorf("kept for %v, want %v", got, want)
			}
		})
	}
}

func TestRequestsAreGatheredForAsLongAsDeclared(t *testing.T) {
	for line, want := range map[string]time.Duration{"": 3 * time.Second, "gather_seconds: 0": 0,
		"gather_seconds: 20": 20 * time.Second} {
		t.Run(line, func(t *testing.T) {
			cluster, err := config.Load(directory(t, strings.Replace(shipped(t), "gather_seconds: 3", line, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if got := cluster.Settings.Gather; got != want {
				t.Errorf("gathered for %v, want %v", got, want)
			}
		})
	}
}

func TestHealthCountsAsDeclared(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		coolDown       time.Duration
		breaker        int
		entire         bool
	}{
		{"nothing said", "  cool_down: 120", "  # ", 2 * time.Minute, 3, false},
		{"another time", "cool_down: 120", "cool_down: 7", 7 * time.Second, 3, false},
		{"a time with a unit", "cool_down: 120", "cool_down: 1h30m", 90 * time.Minute, 3, false},
		{"never", "breaker: 3", "breaker: 0", 2 * time.Minute, 0, false},
		{"all or nothing", "all_or_nothing: false", "all_or_nothing: true", 2 * time.Minute, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := shipped(t)
			if !strings.Contains(text, c.from) {
				t.Fatalf("%q is not in the shipped declaration", c.from)
			}
			cluster, err := config.Load(directory(t, strings.Replace(text, c.from, c.to, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if s := cluster.Settings; s.CoolDown != c.coolDown || s.Breaker != c.breaker ||
				cluster.Partitions[0].AllOrNothing != c.entire {
				t.Errorf("%+v and %+v", s, cluster.Partitions)
			}
		})
	}
}

func TestNodesAreTriedAgainAsOftenAsDeclared(t *testing.T) {
	for line, want := range map[string]int{"": 1, "retries: 3": 3, "retries: 0": 0} {
		t.Run(line, func(t *testing.T) {
			cluster, err := config.Load(directory(t, strings.Replace(shipped(t), "retries: 1", line, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if got := cluster.Settings.Retries; got != want {
				t.Errorf("tried again %d times, want %d", got, want)
			}
		})
	}
}

func TestTheWorkerDoesNoMoreThanIsDeclared(t *testing.T) {
	text := shipped(t)
	for _, line := range []string{"worker: self ", "reconcile_minutes: 5 "} {
		if !strings.Contains(text, line) {
			t.Fatalf("the shipped declaration has no %q", line)
		}
		text = strings.Replace(text, line, "# ", 1)
	}
	cluster, err := config.Load(directory(t, text))
	if err != nil {
		t.Fatal(err)
	}
	if s := cluster.Settings; s.Worker != reconfigure.WorkerSelf || s.Reconcile != 0 {
		t.Errorf("a worker of %q compares each %v; by default, want worker: self without comparisons", s.Worker,
			s.Reconcile)
	}
}

func TestAMissingFileIsNoProblemOfTheDeclaration(t *testing.T) {
	_, err := config.Load(t.TempDir())
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load gave %v, want one that wraps ErrNotExist", err)
	}
	if !strings.Contains(err.Error(), config.File) {
		t.Errorf("%q does not name the file", err)
	}
}

// Without the launch program Slurm calls the site's own prologs, of which there may be several.
func TestSlurmCallsPrologsWithoutTheLaunchProgram(t *testing.T) {
	text := strings.NewReplacer("launch: at_once", "launch: slurm", "extra: {}", "extra: {PrologSlurmctld: '/site/*'}").
		Replace(shipped(t))
	if _, err := config.Load(directory(t, text)); err != nil {
		t.Error(err)
	}
}

func TestATopologyNeedsTheZonesOfAllNodes(t *testing.T) {
	for group, want := range map[string]string{
		"availability_zone: az-1.b": "",
		"availability_zone: ''":     "slurm.topology: zones needs node_groups[0].availability_zone, and the group declares none",
		"availability_zone: a b":    `"a b" cannot be the name of a switch`,
		"availability_zone: Zones":  `"Zones" cannot be the name of a switch`,
		"availability_zone: a\n    fallback_zones: [b]": "node_groups[0].fallback_zones: with slurm.topology: zones a node must be in the " +
			"zone that topology.conf has; remove one of the two keys",
	} {
		text := strings.NewReplacer("topology: none", "topology: zones", `gres: ""`, group).Replace(shipped(t))
		_, err := config.Load(directory(t, text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with %q the error is %v, not %q", group, err, want)
		}
	}
	text := strings.NewReplacer("topology: none", "topology: zones", `gres: ""`, "availability_zone: a", "extra: {}",
		"extra: {TopologyPlugin: topology/flat}").Replace(shipped(t))
	if _, err := config.Load(directory(t, text)); err == nil || !strings.Contains(err.Error(), "generated from slurm.topology") {
		t.Errorf("with two topologies the error is %v", err)
	}
}
