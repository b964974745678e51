package check

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/tools"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/openstack"
)

// publicKey is useless: its private half was deleted.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIpIBPyqOgkM2XD5O5rIfkRy/kyCQjwPK9r2xHg0yCkC "

// healthy is the facts of a site without findings. Each test changes some of them.
func healthy() Facts {
	control := reconfigure.Source{Image: "debian", Flavor: "medium", Network: "cluster"}
	compute := reconfigure.Source{Image: "debian", Flavor: "large", Network: "cluster"}
	files := []File{
		{Path: "/c", Role: Checkout, Mode: 0o755}, {Path: "/c/clouds.yaml", Role: Credentials, Mode: 0o600},
		{Path: "/c/bin/reconfigure", Role: Executable, Mode: 0o755}, {Path: "/k", Role: PrivateKey, Mode: 0o600},
		{Path: "/c/state", Role: StateDirectory, Mode: 0o700},
		{Path: "/c/state/journal.db", Role: JournalFile, Mode: 0o644},
		{Path: "/h", Role: Home, Mode: 0o755}, {Path: "/h/.ssh/authorized_keys", Role: KeyFile, Mode: 0o600},
		{Path: "/c/given", Role: GivenFile, Mode: 0o600}, {Path: "/c/all.yml", Role: Declaration, Mode: 0o644},
	}
	for i := range files {
		files[i].UID = 1001
	}
	minutes := func(n int) []time.Duration {
		return slices.Repeat([]time.Duration{time.Duration(n) * time.Minute}, fewest)
	}
	return Facts{
		Provider: openstack.Provider(),
		Cluster: reconfigure.Cluster{
			Name:    "eiffel",
			Control: reconfigure.Control{Name: "ctl", Source: control},
			Groups: []reconfigure.NodeGroup{
				{Name: "standard", Prefix: "node", Width: 2, Min: 1, Max: 4, Source: compute,
					Slurm: map[string]string{"cpus": "4"}},
			},
			Partitions:   []reconfigure.Partition{{Name: "main", Groups: []string{"standard"}}},
			AllowedCIDRs: []string{"10.0.0.0/8"},
			Slurm: reconfigure.Timing{
				SuspendTime: 20 * time.Minute, SuspendTimeout: 2 * time.Minute, ResumeTimeout: 15 * time.Minute,
			},
			NFSShares: []string{"/home"},
			Settings: reconfigure.Settings{
				Directory: "/c", ControlUser: "eiffel", ControlHosts: []string{"192.0.2.10", "192.0.2.11"},
				BootTimeout: 5 * time.Minute, Retries: 1, HostKeys: reconfigure.HostKeysConsole,
			},
		},
		UID: 1001, Files: files, ControlHost: &ControlHost{UID: 1001},
		FileSystems: []FileSystem{{Path: "/c/state", Free: 10 << 30, Files: 1 << 20, Journal: true}},
		AuthorizedKeys: &AuthorizedKeys{Path: "/h/.ssh/authorized_keys", Lines: []string{
			`restrict,command="/c/bin/reconfigure --dir /c gate --role controller",from="10.0.0.2" ` +
				publicKey + "slurm@eiffel",
			`restrict,command="/c/bin/reconfigure --dir /c gate --role node --node node01",from="10.0.0.3" ` +
				publicKey + "reboot@eiffel/node01",
			publicKey + "somebody else", "# text", "",
		}},
		HostKeys:  map[string]bool{"10.0.0.2": true, "10.0.0.3": true},
		Instances: map[string]reconfigure.Instance{"ctl": {Address: "10.0.0.2"}, "node01": {Address: "10.0.0.3"}},
		Slurm: map[string]string{
			"ReturnToService": "2", "PrivateData": "cloud,jobs", "TreeWidth": "65533", "ResumeRate": "0 nodes/min",
			"SlurmctldParameters": "idle_on_node_suspend,power_save_interval=2", "SuspendTime": "600 sec",
			"ResumeProgram": "/x", "SuspendProgram": "/x", "ResumeFailProgram": "/x",
			"ResumeTimeout": "900 sec", "SuspendTimeout": "120 sec",
		},
		Times: &Times{
			Phases: map[reconfigure.Phase][]time.Duration{reconfigure.PhaseBoot: minutes(1)},
			Ready:  minutes(4), Removed: minutes(1),
		},
		Versions: map[Program]string{Terraform: "1.5.7", Plugin: "1.54.1", Ansible: "2.14.18", Slurm: "22.05.8"},
		Exports:  "rw,sync,root_squash",
		Clocks:   map[string]time.Duration{"the cloud": 2 * time.Second, "the control node": -3 * time.Second},
		Sources: map[reconfigure.Source]reconfigure.Resolved{
			control: {FlavorID: "m"}, compute: {FlavorID: "l"},
		},
		Room: &reconfigure.Room{
			Limit:   reconfigure.Use{Instances: 5, Cores: -1, RAM: 100},
			Flavors: map[string]reconfigure.Use{"m": {RAM: 20}, "l": {RAM: 20, Cores: 2}},
		},
		Measured: map[string]reconfigure.Measured{"standard": {Node: "node01", FlavorID: "l", Printed: "NodeName=node01 " +
			"CPUs=4 Boards=1 SocketsPerBoard=4 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=1"}},
		Servers: []Server{
			{Name: "ctl", Cluster: "eiffel", Ours: true}, {Name: "old", Cluster: "eiffel", Ours: true},
			{Name: "other", Cluster: "another"}, {Name: "x"},
		},
	}
}

func TestAHealthySiteHasNoFindings(t *testing.T) {
	want := Report{Cluster: "eiffel", Findings: []Finding{}, Unreachable: []Unreachable{}}
	if diff := cmp.Diff(want, Run(healthy())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGresWithDevicesOrWithoutGPUsIsNoFinding(t *testing.T) {
	for gres, conf := range map[string]string{
		"": "", "vm_rocky:1,gpus:2": "", "gpu:4": "AutoDetect=nvml", "gpu:a100:2": "Name=gpu File=/dev/nvidia[0-1]",
	} {
		facts := healthy()
		facts.Cluster.Groups[0].Gres, facts.GresConf = gres, &conf
		if report := Run(facts); len(report.Findings) > 0 {
			t.Errorf("%q with %q: %v", gres, conf, report.Findings)
		}
	}
}

// TestALaterReleaseOfSlurmHasNoFindings uses the output of slurmctld 24.11 with the playbooks' slurm.conf.
func TestALaterReleaseOfSlurmHasNoFindings(t *testing.T) {
	facts := healthy()
	facts.Versions[Slurm], facts.Versions[Ansible] = "24.11.5", "2.19.0"
	facts.Slurm["PrivateData"] = "none"
	if report := Run(facts); len(report.Findings) > 0 {
		t.Errorf("%v", report.Findings)
	}
}

func TestWhatIsNotKnownIsNoFinding(t *testing.T) {
	facts := Facts{Cluster: healthy().Cluster}
	if report := Run(facts); len(report.Findings) > 0 {
		t.Errorf("%v", report.Findings)
	}
}

// TestEachFinding makes one fault in each case, and checks that it is the only finding.
func TestEachFinding(t *testing.T) {
	const gated = `command="reconfigure gate --role node",from="10.0.0.4" `
	mode := func(role Role, mode os.FileMode) func(*Facts) {
		return func(f *Facts) {
			for i := range f.Files {
				if f.Files[i].Role == role {
					f.Files[i].Mode = mode
				}
			}
		}
	}
	set := func(name, value string) func(*Facts) { return func(f *Facts) { f.Slurm[name] = value } }
	declare := func(key, value string) func(*Facts) {
		return func(f *Facts) { f.Cluster.Groups[0].Slurm[key] = value }
	}
	version := func(p Program, v string) func(*Facts) { return func(f *Facts) { f.Versions[p] = v } }
	ready := func(d time.Duration) func(*Facts) {
		return func(f *Facts) { f.Times.Ready = slices.Repeat([]time.Duration{d}, fewest) }
	}
	key := func(line string) func(*Facts) {
		return func(f *Facts) { f.AuthorizedKeys.Lines = append(f.AuthorizedKeys.Lines, line) }
	}
	for name, tc := range map[string]struct {
		change   func(*Facts)
		severity Severity
		what     string // in the finding
		line     string // in the proposed change
	}{
		"credentials others can read": {
			mode(Credentials, 0o640),
			Error, "clouds.yaml, the cloud's credentials, has mode 0640", "chmod g-r",
		},
		"a key others can read":        {mode(PrivateKey, 0o604), Error, "has mode 0604", "chmod o-r /k"},
		"a checkout others can write":  {mode(Checkout, 0o775), Error, "/c, the cluster directory", "chmod g-w /c"},
		"a program others can write":   {mode(Executable, 0o777), Error, "bin/reconfigure", "chmod g-w,o-w"},
		"a declaration others write":   {mode(Declaration, 0o666), Error, "all.yml", "chmod g-w,o-w"},
		"a journal others can write":   {mode(JournalFile, 0o664), Error, "journal.db", "chmod g-w"},
		"an open state directory":      {mode(StateDirectory, 0o755), Error, "/c/state,", "chmod g-rx,o-rx"},
		"a munge key others can read":  {mode(GivenFile, 0o644), Error, "munge", "chmod g-r,o-r"},
		"keys that others can write":   {mode(KeyFile, 0o620), Error, "authorized_keys", "chmod g-w"},
		"a home that others can write": {mode(Home, 0o775), Error, "/h, the home of", "chmod g-w /h"},
		"a checkout of root's": {
			func(f *Facts) {
				f.UID, f.ControlHost.UID = 0, 0
				for i := range f.Files {
					f.Files[i].UID = 0
				}
			},
			Warning, "/c, the cluster directory, belongs to root", "control_host.user",
		},
		"a file of somebody else": {
			func(f *Facts) { f.Files[3].UID = 0 },
			Error, "/k, the private key for the nodes, belongs to uid 0", "chown 1001 /k",
		},
		"no private key": {
			func(f *Facts) { f.Files[3] = File{Path: "/k", Role: PrivateKey, Missing: true} },
			Error, "/k,", "",
		},

		"a full disk":   {func(f *Facts) { f.FileSystems[0].Free = 1 << 20 }, Error, "1 MiB", "keep_days"},
		"a narrow disk": {func(f *Facts) { f.FileSystems[0].Free = 1 << 30 }, Warning, "1024 MiB", "free space"},
		"no inodes":     {func(f *Facts) { f.FileSystems[0].Files = 9 }, Warning, "9 inodes", "free space"},
		"a journal on NFS": {
			func(f *Facts) { f.FileSystems[0].Network = true },
			Error, "network file system", "reconfigure.state_directory",
		},

		"a key with a shell": {
			key(`restrict,from="10.0.0.4" ` + publicKey + "reboot@eiffel/node02"),
			Error, "key of node02 has no command=", "reconfigure deploy",
		},
		"a key without restrict": {
			key(gated + publicKey + "reboot@eiffel/node02"),
			Error, "key of node02 has no restrict", "reconfigure deploy",
		},
		"a key of a node that is gone": {
			key("restrict," + gated + publicKey + "reboot@eiffel/node99"), Warning, "node99", "remove its line",
		},
		"a key with another command": {
			key(`restrict,from="10.0.0.4",command="reconfigure update node02" ` + publicKey + "reboot@eiffel/node02"),
			Error, "key of node02 has another command", "reconfigure deploy",
		},
		"a key for any address": {
			key(`restrict,command="reconfigure gate --role node" ` + publicKey + "reboot@eiffel/node02"),
			Warning, "key of node02 has no from=", "reconfigure deploy",
		},
		"no key of Slurm's": {
			func(f *Facts) { f.AuthorizedKeys.Lines = f.AuthorizedKeys.Lines[1:] },
			Error, "no key for slurmctld", "reconfigure deploy",
		},
		"an unknown host key": {
			func(f *Facts) { delete(f.HostKeys, "10.0.0.3") }, Warning, "host keys of node01", "reconfigure deploy",
		},
		"keys on first use": {
			func(f *Facts) { f.Cluster.Settings.HostKeys = reconfigure.HostKeysAcceptNew },
			Warning, "first key", "host_keys: console",
		},

		"ReturnToService": {set("ReturnToService", "1"), Error, "ReturnToService=1", "set it to 2"},
		"PrivateData":     {set("PrivateData", "none"), Error, "PrivateData=none", "cloud"},
		"SlurmctldParameters": {
			set("SlurmctldParameters", "cloud_reg_addrs"),
			Error, "SlurmctldParameters", "idle_on_node_suspend",
		},
		"TreeWidth":             {set("TreeWidth", "3"), Warning, "TreeWidth=3", "at least 4"},
		"ResumeRate":            {set("ResumeRate", "300 nodes/min"), Warning, "ResumeRate=300", "set it to 0"},
		"SuspendTime":           {set("SuspendTime", "INFINITE"), Warning, "SuspendTime=INFINITE", "SuspendTime"},
		"ResumeProgram":         {set("ResumeProgram", "(null)"), Error, "ResumeProgram", "slurm.extra"},
		"SuspendProgram":        {set("SuspendProgram", "(null)"), Error, "SuspendProgram", "slurm.extra"},
		"ResumeFailProgram":     {set("ResumeFailProgram", ""), Error, "ResumeFailProgram", "slurm.extra"},
		"another ResumeTimeout": {set("ResumeTimeout", "600 sec"), Warning, "ResumeTimeout=600", "reconfigure deploy"},

		"less hardware than declared": {
			declare("cpus", "8"), Error, "group standard: slurmd -C on node01 prints CPUs=4",
			"node_groups, standard: slurm: {CPUs: 4, Sockets: 4, CoresPerSocket: 1, ThreadsPerCore: 1}",
		},
		"less memory than declared": {
			declare("realmemory", "900"), Error, "prints RealMemory=1, but declared is RealMemory=900", "{RealMemory: 1}",
		},
		"more hardware than declared": {declare("cpus", "2"), Warning, "declared is CPUs=2", "slurm: {CPUs: 4, "},
		"other sockets than declared": {declare("corespersocket", "2"), Note, "declared is CPUs=4 Sockets=2", "Sockets: 4, "},
		"more hardware than the flavor has": {
			func(f *Facts) { f.Cluster.Groups[0].Slurm = nil }, Warning, "declared is CPUs=2", "slurm: {CPUs: 4, ",
		},
		"no hardware": {
			func(f *Facts) {
				f.Measured["standard"] = reconfigure.Measured{Node: "node01", Printed: "slurmd: error\x1b"}
			}, Warning, `"slurmd: error\x1b" has no hardware`, "slurmd -C on node01",
		},

		"nodes come too late": {ready(15 * time.Minute), Error, "ready after 15m0s", "resume_timeout: 1380"},
		"nodes come late": {
			ready(580 * time.Second * 11 / 10),
			Warning, "resume_timeout is 15m0s", "resume_timeout: 1020",
		},
		"there is no time for a retry": {ready(8 * time.Minute), Note, "a node takes 8m0s", "resume_timeout: 1500"},
		"instances boot slowly": {
			func(f *Facts) {
				f.Times.Phases[reconfigure.PhaseBoot] = slices.Repeat([]time.Duration{4 * time.Minute}, fewest)
			}, Warning, "answer by SSH after 4m0s", "boot_timeout: 480",
		},
		"removals take long": {
			func(f *Facts) { f.Times.Removed = slices.Repeat([]time.Duration{3 * time.Minute}, fewest) },
			Note, "removals take up to 3m0s", "suspend_timeout: 300",
		},
		"nodes go soon": {
			func(f *Facts) { f.Cluster.Slurm.SuspendTime = time.Minute },
			Note, "suspend_time is 1m0s", "suspend_time: 480",
		},
		"boots may take all the time": {
			func(f *Facts) { f.Cluster.Settings.BootTimeout = 15 * time.Minute },
			Warning, "boot_timeout is 15m0s", "resume_timeout: 1860",
		},

		"an old Terraform": {
			version(Terraform, "1.4.6"),
			Error, "Terraform is version 1.4.6, older than 1.5.0", "terraform: PATH",
		},
		"another Terraform": {version(Terraform, "1.9.0"), Warning, "tests run with 1.5.7", "remove it from PATH"},
		"another provider":  {version(Plugin, "3.0.0"), Note, "provider is version 3.0.0", "versions.tf"},
		"another Ansible":   {version(Ansible, "2.17.1"), Note, "ansible-core is version 2.17.1", ""},
		"another Slurm":     {version(Slurm, "23.11.4"), Note, "the tests run with 22.05 and 24.11", ""},
		"root of every node": {
			func(f *Facts) { f.Exports = "rw,no_root_squash" },
			Error, "/home is exported", "nfs_export_options",
		},

		"a clock that is ahead": {
			func(f *Facts) { f.Clocks["the cloud"] = 7 * time.Second },
			Warning, "the cloud is 7s ahead", "NTP",
		},
		"a clock far behind": {
			func(f *Facts) { f.Clocks["the cloud"] = -time.Hour },
			Error, "the cloud is 1h0m0s behind", "NTP",
		},

		"no login": {func(f *Facts) { f.Login = "401 Unauthorized" }, Error, "401", "clouds.yaml"},
		"an image that is gone": {
			func(f *Facts) {
				f.Sources[f.Cluster.Groups[0].Source] = reconfigure.Resolved{
					Err: "image: not found", Class: reconfigure.ClassMissing, FlavorID: "l",
				}
			}, Error, "image: not found", "all.yml",
		},
		"no quota for all": {
			func(f *Facts) { f.Room.Limit.Instances = 4 },
			Warning, "4 instances, but all declared nodes need 5", "max_nodes",
		},
		"no quota for the few": {
			func(f *Facts) { f.Room.Limit.RAM = 30 },
			Error, "30 MiB of memory, but the persistent nodes need 40", "min_nodes",
		},
		"a group in no partition": {
			func(f *Facts) { f.Cluster.Partitions = nil },
			Warning, "the group standard is in no partition", "add standard to the groups of a partition",
		},
		"a control host's user that is not here": {
			func(f *Facts) { f.ControlHost.NoUser = true },
			Error, "this host has no user eiffel, which is control_host.user", "user: of control_host",
		},
		"a control host's user that is another one": {
			func(f *Facts) { f.ControlHost.UID = 1002 },
			Error, "control_host.user eiffel has uid 1002, and the cluster directory belongs to uid 1001", "user: of",
		},
		"a control host's directory that is another one": {
			func(f *Facts) { f.ControlHost.Directory = "/srv/c" },
			Error, "control_host.directory is /c, and this cluster directory is /srv/c", "directory: /srv/c of control_host",
		},
		"a control host's address that is not here": {
			func(f *Facts) { f.ControlHost.Elsewhere = true },
			Warning, "does not have the address 192.0.2.10, 192.0.2.11, which control_host declares", "address: of",
		},
		"GPUs without devices": {
			func(f *Facts) { f.Cluster.Groups[0].Gres, f.GresConf = "license:1,gpu:a100:4", new(string) },
			Warning, "group standard declares license:1,gpu:a100:4, and gres.conf has neither AutoDetect nor File",
			"slurm_gres_conf in group_vars/cluster.yml",
		},
		"SSH from anywhere": {
			func(f *Facts) { f.Cluster.AllowedCIDRs = nil }, Note, "SSH and ping from any address", "allowed_cidrs: [",
		},
		"SSH from anywhere by IPv6": {
			func(f *Facts) { f.Cluster.AllowedCIDRs = []string{"10.0.0.0/8", "::/0"} },
			Note, "SSH and ping from any address", "allowed_cidrs: [",
		},
		"networks that the cloud's module does not read": {
			func(f *Facts) { f.Provider.Module.Firewall = false },
			Warning, "allowed_cidrs has no effect with provider openstack", "remove allowed_cidrs",
		},
		"a cluster of the same name": {
			func(f *Facts) { f.Servers = append(f.Servers, Server{Name: "ctl2", Cluster: "eiffel"}) },
			Warning, "ctl2", "cluster_name",
		},
		"a server with a node's name": {
			func(f *Facts) { f.Servers = append(f.Servers, Server{Name: "node02", Cluster: "another"}) },
			Warning, "node02", "prefix",
		},
	} {
		t.Run(name, func(t *testing.T) {
			facts := healthy()
			tc.change(&facts)
			found := Run(facts).Findings
			if len(found) != 1 {
				t.Fatalf("%d findings, want one: %v", len(found), found)
			}
			f := found[0]
			if f.Severity != tc.severity || !strings.Contains(f.What, tc.what) || !strings.Contains(f.Change, tc.line) ||
				f.Why == "" ||
				f.Change == "" ||
				f.Check == "" {
				t.Errorf("%+v; want %s, %q, %q", f, tc.severity, tc.what, tc.line)
			}
		})
	}
}

// TestHardwareThatIsNotCompared has nodes whose hardware differs: one was made from another flavor, and one has
// config_overrides.
func TestHardwareThatIsNotCompared(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"another flavor": func(f *Facts) {
			f.Sources[f.Cluster.Groups[0].Source] = reconfigure.Resolved{FlavorID: "m"}
		},
		"config_overrides": func(f *Facts) { f.Slurm["SlurmdParameters"] = "l3cache_as_socket,config_overrides" },
		"Slurm is silent":  func(f *Facts) { f.Slurm = nil },
	} {
		facts := healthy()
		facts.Cluster.Groups[0].Slurm["cpus"] = "8"
		if len(hardware(facts)) != 1 {
			t.Error("there is no difference")
		}
		change(&facts)
		if found := hardware(facts); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestFallbackFlavorsWithLessAreReported(t *testing.T) {
	facts := healthy()
	g := &facts.Cluster.Groups[0]
	g.Fallbacks = []string{"big", "tiny", "unknown"}
	for i, use := range []reconfigure.Use{
		{Instances: 1, Cores: 4, RAM: 4096}, {Instances: 1, Cores: 3, RAM: 4096}, // 4 are declared
	} {
		facts.Sources[g.FallbackSources()[i]] = reconfigure.Resolved{FlavorID: g.Fallbacks[i]}
		facts.Room.Flavors[g.Fallbacks[i]] = use
	}
	found := fallbacks(facts)
	if len(found) != 1 || found[0].Severity != Error || !strings.Contains(found[0].What, "flavor tiny has CPUs=3 RealMemory=4096") {
		t.Errorf("%+v", found)
	}
	facts.Room = nil
	if found := fallbacks(facts); len(found) > 0 {
		t.Errorf("without the flavors: %+v", found)
	}
}

func TestAFindingDecidesTheExitCode(t *testing.T) {
	finding := func(all ...Severity) (found []Finding) {
		for _, s := range all {
			found = append(found, Finding{Severity: s})
		}
		return found
	}
	silent := []Unreachable{{"Slurm", "x"}}
	for name, tc := range map[string]struct {
		report Report
		want   Severity
		fails  bool
	}{
		"nothing":                           {Report{}, "", false},
		"a note":                            {Report{Findings: finding(Note)}, Note, false},
		"a warning":                         {Report{Findings: finding(Warning, Note)}, Warning, true},
		"an error":                          {Report{Findings: finding(Error, Warning)}, Error, true},
		"a source does not answer":          {Report{Unreachable: silent}, Warning, true},
		"the same, and there is an error":   {Report{Findings: finding(Error), Unreachable: silent}, Error, true},
		"the same, and there is a note yet": {Report{Findings: finding(Note), Unreachable: silent}, Warning, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := tc.report.Worst(), tc.report.Err(); got != tc.want || (err != nil) != tc.fails {
				t.Errorf("%q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// TestTimesAreMeasured has events of nodes that became ready at the first and at the second attempt, that failed, that
// were removed, and of one whose operation is still running.
func TestTimesAreMeasured(t *testing.T) {
	var events []reconfigure.Event
	at := func(node string, second int, phase reconfigure.Phase, level reconfigure.Level) {
		events = append(events, reconfigure.Event{
			ID: int64(
				len(events) + 1,
			), Plan: 1, Node: node, Time: time.Unix(int64(second), 0), Phase: phase, Level: level,
		})
	}
	way := func(node string, ends ...int) {
		phases := []reconfigure.Phase{
			reconfigure.PhaseApply, reconfigure.PhaseBoot, reconfigure.PhaseConfigure, reconfigure.PhaseVerify,
		}
		for i := range len(ends) - 1 {
			at(node, ends[i], phases[i], reconfigure.Begun)
			at(node, ends[i+1], phases[i], reconfigure.Done)
		}
	}
	way("ready", 0, 10, 40, 60, 65)
	at("retried", 0, reconfigure.PhaseApply, reconfigure.Begun)
	at("retried", 5, reconfigure.PhaseApply, reconfigure.Done)
	at("retried", 5, reconfigure.PhaseBoot, reconfigure.Begun)
	at("retried", 300, reconfigure.PhaseBoot, reconfigure.Note)
	way("retried", 300, 310, 340, 360, 365)
	at("failed", 0, reconfigure.PhaseApply, reconfigure.Begun)
	at("failed", 9, reconfigure.PhaseApply, reconfigure.Failed)
	way("gone", 0, 7)
	way("booting", 0, 9)
	at("booting", 9, reconfigure.PhaseBoot, reconfigure.Begun)

	// Each event belongs to both requests.
	times := Measure(map[reconfigure.RequestID][]reconfigure.Event{1: events, 2: events})
	slices.Sort(times.Ready)
	seconds := func(all ...int) (d []time.Duration) {
		for _, s := range all {
			d = append(d, time.Duration(s)*time.Second)
		}
		return d
	}
	want := Times{
		Ready: seconds(65, 65), Removed: seconds(7),
		Phases: map[reconfigure.Phase][]time.Duration{
			reconfigure.PhaseApply: seconds(10, 10), reconfigure.PhaseBoot: seconds(30, 30),
			reconfigure.PhaseConfigure: seconds(20, 20), reconfigure.PhaseVerify: seconds(5, 5),
		},
	}
	if diff := cmp.Diff(want, times); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPercentile(t *testing.T) {
	var all []time.Duration
	for i := 100; i > 0; i-- {
		all = append(all, time.Duration(i))
	}
	if got, ok := p95(all); got != 95 || !ok {
		t.Errorf("%d, %t; want 95", got, ok)
	}
	if got, ok := p95(all[:5]); got != 100 || !ok {
		t.Errorf("of five: %d, %t; want the greatest", got, ok)
	}
	if _, ok := p95(all[:4]); ok {
		t.Error("four are enough for a conclusion")
	}
}

// TestTheTestedVersionsAreThoseOfTheLab compares the table with the versions that the test suite installs.
func TestTheTestedVersionsAreThoseOfTheLab(t *testing.T) {
	for program, installed := range map[Program][]string{
		Terraform: {tools.TerraformVersion}, Plugin: {tools.ProviderVersion, tools.NewestProviderVersion},
	} {
		if tested := supported(openstack.Provider())[program].tested; !slices.Equal(tested, installed) {
			t.Errorf("%s: the lab installs %s, the table has %s", program, installed, tested)
		}
	}
}

func TestTheViewIsForPeople(t *testing.T) {
	report := Report{
		Findings: []Finding{
			{Check: "files", Severity: Error, What: "it is open", Why: "somebody reads it", Change: "chmod 600 it"},
			{Check: "quota", Severity: Warning, What: strings.Repeat("word ", 30), Why: "so", Change: "more"},
		},
		Unreachable: []Unreachable{{"Slurm", "no route"}},
	}
	var b strings.Builder
	if err := report.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := `error    it is open
         somebody reads it
         → chmod 600 it
warning  word word word word word word word word word word word word word word word word word word word word word word
         word word word word word word word word
         so
         → more
unknown  Slurm does not answer, and what depends on it is not checked: no route
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.Reset()
	if err := (Report{}).Write(&b); err != nil || b.String() != "Nothing was found.\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestNamesOfSiteFiles(t *testing.T) {
	report := Run(Facts{SiteFiles: "a.1.n1 and a.1.n[1-2] have the same priority for n1"})
	if report.Worst() != Error || !strings.Contains(report.Findings[0].What, "a.1.n[1-2]") {
		t.Errorf("%+v", report)
	}
}

func TestAFailedLoginToTheCloudIsReportedOnce(t *testing.T) {
	why := `find cloud "openstack": clouds file not found`
	report := Run(Facts{Login: why, Unreachable: []Unreachable{{"the cloud", why}, {"Terraform", "no answer"}}})
	if n := len(report.Findings); n != 1 || !cmp.Equal(report.Unreachable, []Unreachable{{"Terraform", "no answer"}}) {
		t.Errorf("%+v", report)
	}
	if got, want := report.Err().Error(), "1 error, 0 warnings, 1 source that did not answer"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestKeysOfAnotherClusterOfThatNameAreNotChecked has two clusters of the default name with one user on a control host.
func TestKeysOfAnotherClusterOfThatNameAreNotChecked(t *testing.T) {
	for directory, want := range map[string]bool{
		"/c": false, "/d": true, `/my "c`: true, "": true,
	} {
		line := `restrict,command="/c/bin/reconfigure --dir /c gate --role controller" ` + publicKey + "slurm@eiffel"
		if got := Foreign(line, directory); got != want {
			t.Errorf("%q: foreign %t", directory, got)
		}
		if got := len(keysOf("eiffel", directory, []string{line})); (got == 0) != want {
			t.Errorf("%q: %d keys", directory, got)
		}
	}
	if Foreign(`restrict,command="reconfigure gate --role controller" `+publicKey+"slurm@eiffel", "/c") {
		t.Error("a line without a directory is of another cluster")
	}
}

// TestAShortResumeTimeoutHasAShortMargin uses times that suffice, since the tool gives up a node only a tenth of a
// short ResumeTimeout before its end.
func TestAShortResumeTimeoutHasAShortMargin(t *testing.T) {
	facts := healthy()
	facts.Cluster.Slurm.ResumeTimeout = 2 * time.Minute
	facts.Slurm["ResumeTimeout"] = "120 sec"
	facts.Cluster.Settings.BootTimeout, facts.Cluster.Settings.Retries = 100*time.Second, 0
	facts.Times.Ready = slices.Repeat([]time.Duration{72 * time.Second}, fewest)
	facts.Times.Phases[reconfigure.PhaseBoot] = slices.Repeat([]time.Duration{time.Minute}, fewest)
	for _, f := range Run(facts).Findings {
		t.Errorf("%+v", f)
	}
	facts.Times.Ready = slices.Repeat([]time.Duration{109 * time.Second}, fewest)
	found := Run(facts).Findings
	if len(found) != 1 || found[0].Severity != Error || !strings.Contains(found[0].Why, "12s before") {
		t.Errorf("found %+v", found)
	}
}
