package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Declaration is group_vars/all.yml in the lab's form. The file in the checkout documents the keys.
type Declaration struct {
	ClusterName    string         `yaml:"cluster_name"`
	Provider       string         `yaml:"provider,omitempty"`
	Cloud          string         `yaml:"cloud"`
	ControlHost    ControlHost    `yaml:"control_host"`
	ControlNode    ControlNode    `yaml:"control_node"`
	LoginUser      string         `yaml:"login_user"`
	KeyPair        KeyPair        `yaml:"key_pair"`
	PrivateKeyFile string         `yaml:"private_key_file"`
	NodeGroups     []NodeGroup    `yaml:"node_groups"`
	Partitions     []Partition    `yaml:"partitions"`
	Slurm          Slurm          `yaml:"slurm"`
	NameResolution string         `yaml:"name_resolution"`
	NFSShares      []string       `yaml:"nfs_shares"`
	Reconfigure    map[string]any `yaml:"reconfigure"`
}

// ControlHost is the host on which reconfigure runs.
type ControlHost struct {
	Address        string `yaml:"address"`
	Port           int    `yaml:"port"`
	User           string `yaml:"user"`
	Directory      string `yaml:"directory"`
	HostKey        string `yaml:"host_key"`
	AuthorizedKeys string `yaml:"authorized_keys"`
	// Others are further control hosts.
	Others []FurtherControlHost `yaml:"others,omitempty"`
}

// FurtherControlHost is an additional control host, which is called if the first one does not accept a request.
type FurtherControlHost struct {
	Address string `yaml:"address"`
	Port    int    `yaml:"port"`
	HostKey string `yaml:"host_key"`
}

// ControlNode is the server that runs slurmctld.
type ControlNode struct {
	Name              string `yaml:"name,omitempty"`
	Image             string `yaml:"image,omitempty"`
	Flavor            string `yaml:"flavor,omitempty"`
	Network           string `yaml:"network,omitempty"`
	FloatingIPNetwork string `yaml:"floating_ip_network,omitempty"`
	// Existing is the host of a control node that the site runs; the fields above are then empty.
	Existing string `yaml:"existing,omitempty"`
	// SlurmConf is the path of slurm.conf on that host; "" is /etc/slurm/slurm.conf.
	SlurmConf string `yaml:"slurm_conf,omitempty"`
	// Configure is nil, or how the nodes are configured: a word, or the words of a command.
	Configure any `yaml:"configure,omitempty"`
}

// KeyPair is the key for logins to the nodes.
type KeyPair struct {
	Name      string `yaml:"name"`
	PublicKey string `yaml:"public_key"`
}

// NodeGroup is a group of equal nodes.
type NodeGroup struct {
	Name     string `yaml:"name"`
	Prefix   string `yaml:"prefix"`
	Width    int    `yaml:"width"`
	Image    string `yaml:"image"`
	Flavor   string `yaml:"flavor"`
	Network  string `yaml:"network"`
	MinNodes int    `yaml:"min_nodes"`
	MaxNodes int    `yaml:"max_nodes"`
	Zone     string `yaml:"availability_zone,omitempty"`
	// ServerGroup is the name of a server group that exists.
	ServerGroup string `yaml:"server_group,omitempty"`
	// Fallbacks are flavors.
	Fallbacks []string `yaml:"fallback_flavors,omitempty"`
	// KeepPorts is nil if reconfigure chooses.
	KeepPorts *bool    `yaml:"keep_ports,omitempty"`
	WhenIdle  string   `yaml:"when_idle,omitempty"`
	MaxAge    string   `yaml:"max_age,omitempty"`
	Features  []string `yaml:"features"`
	Gres      string   `yaml:"gres"`
	// HealthCheck names scripts in ansible/files/health, and shipped ones.
	HealthCheck    []string `yaml:"health_check,omitempty"`
	HealthInterval int      `yaml:"health_interval,omitempty"` // seconds
	Spare          int      `yaml:"spare,omitempty"`
	SpareHours     string   `yaml:"spare_hours,omitempty"`
	// Metadata is that of the instances.
	Metadata map[string]string `yaml:"metadata,omitempty"`
	Slurm    map[string]any    `yaml:"slurm"`
}

// Partition is one of Slurm's partitions.
type Partition struct {
	Name    string         `yaml:"name"`
	Groups  []string       `yaml:"groups"`
	Default bool           `yaml:"default"`
	Fresh   string         `yaml:"fresh,omitempty"`
	Slurm   map[string]any `yaml:"slurm"`
}

// Slurm has Slurm's times in seconds and additional settings.
type Slurm struct {
	SuspendTime          int               `yaml:"suspend_time"`
	SuspendTimeout       int               `yaml:"suspend_timeout"`
	ResumeTimeout        int               `yaml:"resume_timeout"`
	ResumeRate           int               `yaml:"resume_rate"`
	SuspendRate          int               `yaml:"suspend_rate"`
	ControllerParameters []string          `yaml:"controller_parameters"`
	Launch               string            `yaml:"launch,omitempty"`
	Extra                map[string]string `yaml:"extra"`
}

// Group returns a group of small nodes for a declaration; the caller may change it.
func Group(name, prefix string, persistent, most int) NodeGroup {
	return NodeGroup{
		Name: name, Prefix: prefix, Width: max(2, len(strconv.Itoa(most))), Image: ImageV1, Flavor: FlavorSmall,
		Network: networkName, MinNodes: persistent, MaxNodes: most, Features: []string{name},
		Slurm: map[string]any{"CPUs": 2, "RealMemory": 500},
	}
}

// Names in the cloud. The two images differ only in /etc/image-release.
const (
	ImageV1     = "node-v1"
	ImageV2     = "node-v2"
	FlavorSmall = "small"
	FlavorLarge = "large"
	ZoneUsual   = "north" // where the cloud puts instances for which no zone is declared
	ZoneOther   = "south"
	networkName = "cluster"
	cloudName   = "lab"
)

// declaration returns the declaration of a lab with these groups and partitions.
func (l *Lab) declaration(groups []NodeGroup, partitions []Partition) Declaration {
	provider := ""
	if l.cfg.Libvirt {
		provider = "libvirt"
	}
	return Declaration{
		ClusterName:    l.cfg.Name,
		Provider:       provider,
		Cloud:          cloudName,
		ControlHost:    l.controlHost(),
		ControlNode:    ControlNode{Name: ControlNodeName, Image: ImageV1, Flavor: FlavorSmall, Network: networkName},
		LoginUser:      "debian",
		KeyPair:        KeyPair{Name: l.cfg.Name, PublicKey: l.publicKey},
		PrivateKeyFile: "~/.ssh/id_ed25519",
		NodeGroups:     groups,
		Partitions:     partitions,
		Slurm: Slurm{
			// ResumeTimeout is long, since nodes come up late when several labs share two cores.
			SuspendTime: 15, SuspendTimeout: 12, ResumeTimeout: 300,
			Extra: l.extra(),
		},
		NameResolution: "hosts",
		Reconfigure: map[string]any{
			"state_directory": "state", "terraform": l.terraform(), "parallelism": 20, "lock_timeout": 60,
			"host_keys": "console", "boot_timeout": 30,
			"cool_down": 0, "breaker": 0, // a fault of one test must not affect the next one
		},
	}
}

// controlHost declares the control host. The host key of a machine is in Debian's default place and need not be
// declared.
func (l *Lab) controlHost() ControlHost {
	if l.hasMachine() {
		return ControlHost{Address: l.machineAddress().String(), Port: 22, User: User, Directory: l.Directory()}
	}
	return ControlHost{
		Address: l.cfg.Gateway.Addr().String(), Port: sshPort, User: User, Directory: l.Directory(), HostKey: l.hostKey,
	}
}

// extra returns additional settings of Slurm. Machines with systemd have control groups. Without systemd, Slurm must
// not use control groups, and must not compare the nodes with this computer, whose hardware they show.
func (l *Lab) extra() map[string]string {
	extra := map[string]string{"SchedulerParameters": "sched_interval=5", "KillWait": "5"}
	if !l.hasSystemd() {
		maps.Copy(extra, map[string]string{
			"ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none",
			"JobAcctGatherType": "jobacct_gather/none", "SlurmdParameters": "config_overrides",
		})
	}
	return extra
}

// Declare writes group_vars/all.yml.
func (l *Lab) Declare(d Declaration) error {
	text, err := yaml.Marshal(d)
	if err != nil {
		return fmt.Errorf("declare the cluster: %w", err)
	}
	l.Declaration = d
	dir := filepath.Join(l.Site, "group_vars")
	file, variables := filepath.Join(dir, "all.yml"), filepath.Join(dir, "cluster.yml")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("declare the cluster: %w", err)
	}
	site := cmp.Or(l.cfg.Variables, withoutCgroups)
	if l.hasSystemd() {
		site = "lab: true\n" // a test may append to it
	}
	return errors.Join(os.WriteFile(file, text, 0o644), os.WriteFile(variables, []byte(site), 0o644),
		os.Lchown(dir, l.uid, l.uid), l.give(file, variables))
}

// hasSystemd reports whether the nodes have systemd, and thus control groups.
func (l *Lab) hasSystemd() bool { return l.cfg.Systemd != "" || l.cfg.Libvirt }

// withoutCgroups is group_vars/cluster.yml for machines without control groups. slurmd of Slurm 22.05 always loads a
// cgroup plugin, and only that of version 1 works without a cgroup file system.
const withoutCgroups = `slurm_cgroup_conf: |
  CgroupPlugin=cgroup/v1
`
