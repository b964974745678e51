package config

import (
	"errors"
	"math"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
)

// declaration has the values of the file that the rules between keys and the Cluster need.
type declaration struct {
	name, provider, cloud, loginUser, privateKeyFile value[string]

	controlHost controlHost

	control    control
	groups     []group
	partitions []partition
	limits     []limit
	slurm      timing
	extra      map[string]value[string] // by lower-case name
	nfsShares  value[[]value[string]]

	allowedCIDRs   value[[]value[string]]
	nameResolution value[string]

	settings settingsOfTool
}

type source struct {
	image, flavor, network value[string]
	zone, serverGroup      value[string]
	hints, metadata        map[string]value[string]
	fallbacks              value[[]value[string]]
	fallbackZones          value[[]value[string]]
}

type control struct {
	name value[string]
	source
	existing, user, slurmConf value[string]
	cidrs                     value[[]value[string]]
	configure                 value[[]value[string]]
	floatingIPNetwork         value[string]
	line                      int // of the keys; 0: they cannot be read
}

type controlHost struct {
	address, user, directory, authorizedKeys value[string]
	others                                   []value[string] // addresses
}

type group struct {
	name, prefix    value[string]
	width, min, max value[int]
	keepPorts       value[bool]
	whenIdle, gres  value[string]
	maxAge          value[string]
	maxStopped      value[int]
	features        value[[]value[string]]
	healthCheck     value[[]value[string]]
	healthLimit     value[int]
	healthInterval  value[int]
	spare           value[int]
	spareHours      value[string]
	slurm           map[string]value[string] // by lower-case name
	source
}

type partition struct {
	name                    value[string]
	groups                  value[[]value[string]]
	isDefault, allOrNothing value[bool]
	fresh                   value[string]
	slurm                   map[string]value[string] // by lower-case name
}

type limit struct {
	groups value[[]value[string]]
	max    value[int]
}

// perJob is the value of a partition's fresh with which each job gets its own instances.
const perJob = "job"

type timing struct {
	suspendTime, suspendTimeout, resumeTimeout value[int]
	resumeRate, suspendRate                    value[int]
	parameters                                 value[[]value[string]]

	accountingStorage value[string]
	launch            value[string]
	topology          value[string]
}

type settingsOfTool struct {
	stateDir, journal, worker, terraform, hostKeys value[string]
	metrics, notify                                value[string]
	notifyClasses                                  value[[]value[string]]
	canaryJob                                      value[string]
	keepDays, gatherSeconds, reconcileMinutes      value[int]
	parallelism, lockTimeout, bootTimeout          value[int]
	coolDown, breaker, retries, nodesPerState      value[int]
	canaryMinutes                                  value[int]
	interrupt                                      value[bool]
}

// slurmdbd is the value of slurm.accounting_storage with which the control node runs slurmdbd.
const slurmdbd = "slurmdbd"

// slurm16 is the maximum of a setting that Slurm stores in 16 bits: scontrol rejects more than 65535, and 65535 and
// 65534 mean "infinite" and "not set" (slurm.h, INFINITE16 and NO_VAL16).
const slurm16 = 65533

// schema is the top level of the file. Values that only Ansible or Terraform uses are checked and not stored.
func (d *declaration) schema(dir string) object {
	return object{
		"cluster_name":     text(&d.name, clusterName()...),
		"provider":         optional{text(&d.provider, like(`[a-z0-9]+`, "is not a kind of cloud"))},
		"cloud":            text(&d.cloud, filled),
		"control_host":     d.controlHost.schema(),
		"control_node":     d.control.schema(),
		"login_user":       text(&d.loginUser, userName()),
		"key_pair":         optional{keyPair()},
		"private_key_file": byDefault("~/.ssh/id_ed25519", path(dir, &d.privateKeyFile, filled)),
		"node_groups":      list(&d.groups, (*group).schema),
		"partitions":       byDefault("one partition of all groups, main", list(&d.partitions, (*partition).schema)),
		"limits":           optional{list(&d.limits, (*limit).schema)},
		"slurm":            optional{d.slurmSchema()},
		"allowed_cidrs":    optional{texts(&d.allowedCIDRs, network)},
		"name_resolution":  byDefault("hosts", word(&d.nameResolution, "hosts", "dns")),
		"nfs_shares":       optional{texts(&d.nfsShares, shared)},
		"reconfigure":      optional{d.settings.schema(dir)},
	}
}

// clusterName allows names that slurmdbd does not change: it uses them in the names of its tables (slurm.conf(5),
// ClusterName).
func clusterName() []rule {
	return []rule{
		like(`[a-z0-9][a-z0-9_-]*`, "must be lower-case letters, digits, - and _"),
		atMost(40, "the maximum of slurmdbd"),
	}
}

func (h *controlHost) schema() object {
	return object{
		"address":   text(&h.address, address),
		"port":      byDefault("22", integer(new(value[int]), 1, math.MaxUint16)),
		"user":      byDefault("the owner of the cluster directory", text(&h.user, userName())),
		"directory": byDefault("the cluster directory", text(&h.directory, absolute)),
		"host_key":  optional{text(new(value[string]), maybe(publicKey))},
		"authorized_keys": optional{text(&h.authorizedKeys,
			maybe(like(`~?/.+`, "is neither an absolute path nor begins with ~/")))},
		"others": optional{list(&h.others, func(other *value[string]) object {
			return object{
				"address":  text(other, address),
				"port":     byDefault("22", integer(new(value[int]), 1, math.MaxUint16)),
				"host_key": text(new(value[string]), publicKey),
			}
		})},
	}
}

func keyPair() object {
	return object{
		"name":       byDefault("cluster_name", text(new(value[string]), filled)),
		"public_key": optional{text(new(value[string]), maybe(publicKey))},
	}
}

func userName() rule {
	return like(`[A-Za-z0-9_][A-Za-z0-9_.@-]*`, "is not a user's name")
}

// nodePrefix checks the part of node names before the number. Whether the whole name is valid depends on width too.
func nodePrefix(s string) error {
	if s == "" {
		return errors.New("is empty")
	}
	return nodeset.ValidName(s + "1")
}

func (s *source) schema(further object) object {
	further["image"] = text(&s.image, filled)
	further["flavor"] = text(&s.flavor, filled)
	further["network"] = text(&s.network, filled)
	return further
}

// schema has the keys of both kinds of control nodes. checkControl checks which of them go together.
func (c *control) schema() object {
	const made = "required without existing"
	return object{
		"name":                byDefault("CLUSTER_NAME-control", text(&c.name, nodeset.ValidName, notReserved())),
		"image":               byDefault(made, text(&c.image, filled)),
		"flavor":              byDefault(made, text(&c.flavor, filled)),
		"network":             byDefault(made, text(&c.network, filled)),
		"availability_zone":   optional{text(&c.zone, maybe(zone()))},
		"floating_ip_network": optional{text(&c.floatingIPNetwork, maybe(filled))},
		"existing":            optional{text(&c.existing, maybe(address))},
		"user":                byDefault("login_user", text(&c.user, userName())),
		"slurm_conf":          byDefault(usualSlurmConf, text(&c.slurmConf, absolute)),
		"cidrs":               optional{texts(&c.cidrs, network)},
		"configure":           byDefault(byPlaybooks, wayToConfigure(&c.configure, byPlaybooks, byImage)),
	}
}

// zone rejects ZONE:HOST, which only administrators of a cloud may use (Compute API, availability_zone).
func zone() rule { return like(`[^:]+`, "must be the name of a zone, without a host") }

// The ways to configure the compute nodes of an attached cluster, besides a playbook and a command of the site.
const (
	byPlaybooks = "playbooks"
	byImage     = "image"
)

// usualSlurmConf is the path of slurm.conf in most packages of Slurm.
const usualSlurmConf = "/etc/slurm/slurm.conf"

// notReserved rejects names with another meaning in Ansible's inventory: Ansible's own names, and those of the
// playbooks.
func notReserved() rule {
	return noneOf("is a name that the inventory already uses",
		"all", "changed", "cluster", "compute", reconfigure.ControlGroup, "localhost", "ungrouped")
}

func (g *group) schema() object {
	const widest = 9 // more than the digits of nodeset.MaxNodes; 10^widest fits an int
	g.whenIdle.is = string(reconfigure.IdleDelete)
	g.width.preset(usualWidth)
	g.min.preset(0)
	g.healthLimit.preset(usualHealthLimit)
	g.healthInterval.preset(0)
	g.spare.preset(0)
	schema := g.source.schema(object{
		"name":       text(&g.name, groupName(), notReserved()),
		"prefix":     byDefault("the group's name, with - instead of _", text(&g.prefix, nodePrefix)),
		"width":      optional{integer(&g.width, 1, widest)},
		"min_nodes":  optional{integer(&g.min, 0, nodeset.MaxNodes)},
		"max_nodes":  integer(&g.max, 1, nodeset.MaxNodes),
		"keep_ports": byDefault("true up to 256 nodes", boolean(&g.keepPorts)),
		"when_idle": optional{word(&g.whenIdle, string(reconfigure.IdleDelete), string(reconfigure.IdleStop),
			string(reconfigure.IdleShelve))},
		"max_stopped": byDefault("max_nodes", integer(&g.maxStopped, 0, nodeset.MaxNodes)),
		"max_age":     optional{text(&g.maxAge, maybe(age))},
		"features":    optional{texts(&g.features, feature())},
		"gres":        optional{text(&g.gres, maybe(gres()))},
		"health_check": optional{texts(&g.healthCheck, like(`[A-Za-z0-9][A-Za-z0-9._-]*`,
			"is not the name of a script: letters, digits and . _ -"))},
		"health_limit":    optional{timespan(&g.healthLimit, 1, mostHealthLimit)},
		"health_interval": optional{timespan(&g.healthInterval, leastHealthInterval, mostHealthInterval)},
		"spare":           optional{integer(&g.spare, 0, nodeset.MaxNodes)},
		"spare_hours":     optional{text(&g.spareHours, maybe(hours))},
		"slurm":           optional{settings(&g.slurm, slurmconf.NodeSettings(), slurmconf.LaterNodeSettings(), ofNodes())},
	})
	schema["fallback_flavors"] = optional{texts(&g.fallbacks, filled)}
	schema["availability_zone"] = optional{text(&g.zone, maybe(zone()))}
	schema["fallback_zones"] = optional{texts(&g.fallbackZones, zone())}
	schema["server_group"] = optional{text(&g.serverGroup, maybe(filled))}
	schema["scheduler_hints"] = optional{textsByName(&g.hints, hint())}
	schema["metadata"] = optional{textsByName(&g.metadata, metadatum())}
	schema["image"] = byDefault("control_node.image", text(&g.image, filled))
	schema["network"] = byDefault("control_node.network", text(&g.network, filled))
	return schema
}

// The time limit of a health check, in seconds.
const (
	usualHealthLimit = 30
	mostHealthLimit  = 600
)

// The time after which an idle node is checked again, in seconds.
const (
	leastHealthInterval = 60
	mostHealthInterval  = 31 * 24 * 3600
)

// usualWidth is a width that seldom has to change, which would rename the nodes.
const usualWidth = 3

// groupName allows no hyphen, since Ansible's inventory has a group of that name, which must not have one.
func groupName() rule {
	return like(`[a-z][a-z0-9_]*`, "must be lower-case letters, digits and _, with a letter first")
}

func feature() rule {
	return like(`[A-Za-z0-9_.=-]+`, "must be letters, digits and _ . = -, since sbatch's --constraint gives others a "+
		"meaning")
}

// gres checks a list of <name>[:<type>][:no_consume]:<number>[K|M|G], separated by commas (slurm.conf(5), Gres).
func gres() rule {
	const one = `[A-Za-z0-9_.-]+(?::[A-Za-z0-9_.-]+)*(?::[0-9]+[KMGTP]?)`
	return like(one+`(?:,`+one+`)*`, "is not in the form name[:type][:no_consume]:number, as in gpu:a100:4,tmp:100G")
}

func (p *partition) schema() object {
	return object{
		"name": text(&p.name, like(`[A-Za-z0-9_.-]+`, "must be letters, digits and _ . -"),
			noneOf("means something else in slurm.conf", "default")),
		"groups":         texts(&p.groups),
		"default":        optional{boolean(&p.isDefault)},
		"all_or_nothing": optional{boolean(&p.allOrNothing)},
		"fresh":          optional{text(&p.fresh, maybe(oneOf(perJob)))},
		"slurm":          optional{settings(&p.slurm, slurmconf.PartitionSettings(), slurmconf.LaterPartitionSettings(), ofPartition())},
	}
}

func (l *limit) schema() object {
	return object{"groups": texts(&l.groups), "max": integer(&l.max, 0, nodeset.MaxNodes)}
}

// What launches a job whose nodes come up.
const (
	atOnce  = "at_once"
	bySlurm = "slurm" // slurmctld's timer
)

// The topologies that Slurm is told: none, or one of which each zone is a switch.
const (
	noTopology = "none"
	byZones    = "zones"
)

func (d *declaration) slurmSchema() object {
	const (
		// Defaults, in seconds.
		suspendTime    = 600
		suspendTimeout = 120
		resumeTimeout  = 900
	)
	d.slurm.launch.is, d.slurm.topology.is = atOnce, noTopology
	d.slurm.suspendTime.preset(suspendTime)
	d.slurm.suspendTimeout.preset(suspendTimeout)
	d.slurm.resumeTimeout.preset(resumeTimeout)
	parameter := like(`[A-Za-z0-9_]+(=[^, #]+)?`, "is not one of slurm.conf's SlurmctldParameters")
	return object{
		"suspend_time":          optional{plainSeconds(&d.slurm.suspendTime, 1, math.MaxInt32)},
		"suspend_timeout":       optional{plainSeconds(&d.slurm.suspendTimeout, 1, slurm16)},
		"resume_timeout":        optional{plainSeconds(&d.slurm.resumeTimeout, 1, slurm16)},
		"resume_rate":           optional{measured("nodes a minute", integer(&d.slurm.resumeRate, 0, slurm16))},
		"suspend_rate":          optional{measured("nodes a minute", integer(&d.slurm.suspendRate, 0, slurm16))},
		"controller_parameters": optional{texts(&d.slurm.parameters, parameter)},
		"launch":                optional{word(&d.slurm.launch, atOnce, bySlurm)},
		"topology":              optional{word(&d.slurm.topology, noTopology, byZones)},
		"accounting_storage":    byDefault("none", word(&d.slurm.accountingStorage, "none", slurmdbd)),
		"extra":                 optional{settings(&d.extra, slurmconf.Settings(), slurmconf.LaterSettings(), ofCluster())},
	}
}

func (s *settingsOfTool) schema(dir string) object {
	const (
		// Defaults.
		keepDays      = 90
		gatherSeconds = 3
		coolDown      = 120 // in seconds; about the time after which Slurm starts a requeued job again
		breaker       = 3
		retries       = 1
		nodesPerState = 32 // the time of a run of Terraform grows with the square of the nodes in its state
		canaryMinutes = 10
		parallelism   = 50
		lockTimeout   = 600 // in seconds
		bootTimeout   = 300 // in seconds
		// Limits.
		mostRetries = 9     // usually resume_timeout ends the retries earlier
		century     = 36500 // in days
		day         = 86400 // in seconds
		hour        = 3600  // in seconds
	)
	s.keepDays.is, s.gatherSeconds.is, s.coolDown.is, s.breaker.is, s.retries.is = keepDays, gatherSeconds, coolDown,
		breaker, retries
	s.nodesPerState.is, s.interrupt.is, s.canaryMinutes.is = nodesPerState, true, canaryMinutes
	s.worker.is, s.hostKeys.is = string(reconfigure.WorkerSelf), string(reconfigure.HostKeysConsole)
	s.parallelism.is, s.lockTimeout.is = parallelism, lockTimeout
	s.bootTimeout.preset(bootTimeout)
	return object{
		"state_directory":   byDefault("state", path(dir, &s.stateDir, filled)),
		"journal":           optional{text(&s.journal, maybe(postgresURL))},
		"keep_days":         optional{measured("days", integer(&s.keepDays, 0, century))},
		"worker":            optional{word(&s.worker, string(reconfigure.WorkerSelf), string(reconfigure.WorkerSystemd))},
		"reconcile_minutes": optional{measured("minutes", integer(&s.reconcileMinutes, 0, day/60))},
		"metrics":           optional{text(&s.metrics, maybe(localAddress))},
		"notify":            byDefault(`""`, path(dir, &s.notify, maybe(filled))),
		"notify_classes":    optional{texts(&s.notifyClasses, oneOf(notifyClasses()...))},
		"gather_seconds":    optional{measured("seconds", integer(&s.gatherSeconds, 0, hour))},
		"terraform":         byDefault(`""`, path(dir, &s.terraform, maybe(filled))),
		"parallelism":       optional{integer(&s.parallelism, 1, math.MaxInt16)},
		"lock_timeout":      optional{timespan(&s.lockTimeout, 1, math.MaxInt32)},
		"host_keys": optional{word(&s.hostKeys, string(reconfigure.HostKeysConsole),
			string(reconfigure.HostKeysAcceptNew))},
		"boot_timeout":    optional{plainSeconds(&s.bootTimeout, 1, math.MaxInt32)},
		"cool_down":       optional{timespan(&s.coolDown, 0, day)},
		"breaker":         optional{integer(&s.breaker, 0, nodeset.MaxNodes)},
		"retries":         optional{integer(&s.retries, 0, mostRetries)},
		"nodes_per_state": optional{integer(&s.nodesPerState, 0, nodeset.MaxNodes)},
		"interrupt":       optional{boolean(&s.interrupt)},
		"canary_job":      optional{text(&s.canaryJob)},
		"canary_minutes":  optional{measured("minutes", integer(&s.canaryMinutes, 1, day/60))},
	}
}

// notifyClasses returns the classes of failures, and what else the notify command may be told.
func notifyClasses() (all []string) {
	for _, class := range reconfigure.Classes() {
		all = append(all, string(class))
	}
	return append(all, "finding", "campaign")
}
