package config

import (
	"cmp"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// cluster converts the declaration, which must have no problems, to a reconfigure.Cluster.
func (d *declaration) cluster() reconfigure.Cluster {
	return reconfigure.Cluster{
		Name:           d.name.is,
		Provider:       d.provider.is,
		Cloud:          d.cloud.is,
		LoginUser:      d.loginUser.is,
		PrivateKeyFile: d.privateKeyFile.is,
		Control:        d.control.node(),
		Groups:         each(d.groups, group.nodeGroup),
		Partitions:     each(d.partitions, partition.partition),
		Limits:         limits(d.limits),
		Slurm: reconfigure.Timing{
			SuspendTime:    seconds(d.slurm.suspendTime),
			SuspendTimeout: seconds(d.slurm.suspendTimeout),
			ResumeTimeout:  seconds(d.slurm.resumeTimeout),
			ResumeRate:     d.slurm.resumeRate.is,
			SuspendRate:    d.slurm.suspendRate.is,
			Parameters:     each(d.slurm.parameters.is, content),
		},
		// slurmctld runs the PrologSlurmctld of the site.
		LaunchAtOnce: d.slurm.launch.is == atOnce && d.control.existing.is == "",
		DNS:          d.nameResolution.is == "dns",
		NFSShares:    each(d.nfsShares.is, content),
		AllowedCIDRs: each(d.allowedCIDRs.is, content),
		Settings: reconfigure.Settings{
			StateDir:    d.settings.stateDir.is,
			Journal:     d.settings.journal.is,
			Keep:        time.Duration(d.settings.keepDays.is) * 24 * time.Hour,
			Gather:      time.Duration(d.settings.gatherSeconds.is) * time.Second,
			Worker:      reconfigure.WorkerStart(d.settings.worker.is),
			Notify:      d.settings.notify.is,
			Metrics:     d.settings.metrics.is,
			Reconcile:   time.Duration(d.settings.reconcileMinutes.is) * time.Minute,
			Terraform:   d.settings.terraform.is,
			Parallelism: d.settings.parallelism.is,
			LockTimeout: seconds(d.settings.lockTimeout),
			BootTimeout: seconds(d.settings.bootTimeout),
			Retries:     d.settings.retries.is,
			HostKeys:    reconfigure.HostKeyPolicy(d.settings.hostKeys.is),
			CoolDown:    seconds(d.settings.coolDown),
			Breaker:     d.settings.breaker.is,

			Directory:      d.controlHost.directory.is,
			ControlUser:    d.controlHost.user.is,
			ControlHosts:   each(append([]value[string]{d.controlHost.address}, d.controlHost.others...), content),
			AuthorizedKeys: cmp.Or(d.controlHost.authorizedKeys.is, "~"+d.controlHost.user.is+"/.ssh/authorized_keys"),

			NotifyClasses: each(d.settings.notifyClasses.is, content),
			NodesPerState: d.settings.nodesPerState.is,
			Interrupt:     d.settings.interrupt.is,
			CanaryJob:     d.settings.canaryJob.is,
			CanaryTime:    time.Duration(d.settings.canaryMinutes.is) * time.Minute,
		},
	}
}

func (c control) node() reconfigure.Control {
	node := reconfigure.Control{Name: c.name.is, Source: c.source.source()}
	if c.existing.is != "" {
		node.Name = c.existing.is
		node.Existing = &reconfigure.ExistingControl{Host: c.existing.is, User: c.user.is, SlurmConf: c.slurmConf.is,
			CIDRs: contentsOf(c.cidrs)}
		switch way := contentsOf(c.configure); {
		case len(way) == 0 || slices.Equal(way, []string{byPlaybooks}):
		case slices.Equal(way, []string{byImage}):
			node.Existing.ByImage = true
		case isPlaybook(way[0]):
			node.Existing.Playbook = way[0]
		default:
			node.Existing.Command = way
		}
	}
	return node
}

// contentsOf returns nil where no list is declared.
func contentsOf(list value[[]value[string]]) []string {
	if len(list.is) == 0 {
		return nil
	}
	return each(list.is, content)
}

// contents returns nil where nothing is declared.
func contents(settings map[string]value[string]) (made map[string]string) {
	for key, v := range settings {
		if made == nil {
			made = map[string]string{}
		}
		made[key] = v.is
	}
	return made
}

func (g group) nodeGroup() reconfigure.NodeGroup {
	var limit time.Duration
	if len(g.healthCheck.is) > 0 {
		limit = seconds(g.healthLimit)
	}
	var spareHours reconfigure.Hours
	if g.spareHours.is != "" {
		spareHours, _ = reconfigure.ParseHours(g.spareHours.is) // its rule has read it
	}
	return reconfigure.NodeGroup{
		Name:   g.name.is,
		Prefix: g.prefix.is,
		Width:  g.width.is,
		Source: g.source.source(),
		Min:    g.min.is,
		Max:    g.max.is,

		Fallbacks:     each(g.fallbacks.is, content),
		FallbackZones: each(g.fallbackZones.is, content),

		KeepPorts:  g.keepsPorts(),
		WhenIdle:   reconfigure.WhenIdle(g.whenIdle.is),
		MaxStopped: g.mostStopped(),
		Features:   each(g.features.is, content),
		Gres:       g.gres.is,
		MaxAge:     duration(g.maxAge.is),
		Slurm:      contents(g.slurm),

		HealthChecks: names(g.healthCheck.is),
		HealthLimit:  limit,

		HealthInterval: seconds(g.healthInterval),

		Spare:      g.spare.is,
		SpareHours: spareHours,
	}
}

// names returns nil where none is declared.
func names(all []value[string]) (made []string) {
	for _, v := range all {
		made = append(made, v.is)
	}
	return made
}

// keepsPorts returns keep_ports. Its default is false for a large group: the ports would use addresses and quota for
// nodes that may never be made.
func (g group) keepsPorts() bool {
	const large = 256
	if g.keepPorts.missing() {
		return g.max.is <= large
	}
	return g.keepPorts.is
}

// mostStopped returns max_stopped. By default there is no maximum.
func (g group) mostStopped() int {
	if g.maxStopped.missing() {
		return g.max.is
	}
	return g.maxStopped.is
}

func (p partition) partition() reconfigure.Partition {
	return reconfigure.Partition{
		Name: p.name.is, Groups: each(p.groups.is, content), AllOrNothing: p.allOrNothing.is, Fresh: p.perJob(),
		Default: p.isDefault.is, Slurm: contents(p.slurm),
	}
}

// limits returns nil where none is declared.
func limits(all []limit) (made []reconfigure.Limit) {
	for _, l := range all {
		made = append(made, reconfigure.Limit{Groups: each(l.groups.is, content), Max: l.max.is})
	}
	return made
}

func content(v value[string]) string { return v.is }

func (s source) source() reconfigure.Source {
	return reconfigure.Source{Image: s.image.is, Flavor: s.flavor.is, Network: s.network.is,
		Placement: reconfigure.Placement{
			Zone: s.zone.is, ServerGroup: s.serverGroup.is, Hints: reconfigure.MakeTexts(contents(s.hints)),
			Metadata: reconfigure.MakeTexts(contents(s.metadata)),
		}}
}

func seconds(v value[int]) time.Duration { return time.Duration(v.is) * time.Second }

func each[T, U any](all []T, to func(T) U) []U {
	made := make([]U, len(all))
	for i, v := range all {
		made[i] = to(v)
	}
	return made
}
