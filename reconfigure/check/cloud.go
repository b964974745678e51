package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// exports checks the NFS options of the folders that the nodes share.
func exports(facts Facts) []Finding {
	if len(facts.Cluster.NFSShares) == 0 || !hasWord(facts.Exports, "no_root_squash") {
		return nil
	}
	return []Finding{{
		Check: "nfs", Severity: Error,
		What:   fmt.Sprintf("%s is exported with no_root_squash", strings.Join(facts.Cluster.NFSShares, ", ")),
		Why:    "root on one compute node can write all users' files, and so become any user, also on the control node",
		Change: "no no_root_squash in nfs_export_options (group_vars/cluster.yml); then reconfigure deploy",
	}}
}

// clocks checks that all clocks show the same time.
func clocks(facts Facts) (found []Finding) {
	const (
		harmless = 5 * time.Second
		most     = time.Minute
	)
	for _, where := range slices.Sorted(maps.Keys(facts.Clocks)) {
		ahead := facts.Clocks[where]
		if ahead.Abs() <= harmless {
			continue
		}
		finding := Finding{
			Check: "clocks", Severity: Warning,
			What:   fmt.Sprintf("the clock of %s is %s ahead of this host's", where, round(ahead)),
			Why:    "Slurm accepts a node only if its boot is newer than the request, by the clocks of both",
			Change: "NTP on this host, on the control node and in the images",
		}
		if ahead < 0 {
			finding.What = fmt.Sprintf("the clock of %s is %s behind this host's", where, round(-ahead))
		}
		if ahead.Abs() > most {
			finding.Severity = Error
		}
		found = append(found, finding)
	}
	return found
}

// login checks that the cloud accepts the credentials.
func login(facts Facts) []Finding {
	if facts.Login == "" {
		return nil
	}
	return []Finding{{
		Check: "cloud", Severity: Error,
		What:   facts.Login,
		Why:    "nothing can be made or removed, and idle instances cost money",
		Change: fmt.Sprintf("the cloud %q: %s", facts.Cluster.Cloud, facts.Provider.Advice),
	}}
}

// sources checks that the cloud has the declared images, flavors and networks.
func sources(facts Facts) (found []Finding) {
	byError := map[string][]string{}
	note := func(who string, s reconfigure.Source) {
		if r := facts.Sources[s]; r.Err != "" && r.Class == reconfigure.ClassMissing {
			byError[r.Err] = append(byError[r.Err], who)
		}
	}
	if !facts.Cluster.Attached() {
		note("control_node", facts.Cluster.Control.Source)
	}
	for _, g := range facts.Cluster.Groups {
		for _, source := range g.Sources() {
			note("group "+g.Name, source)
		}
	}
	for _, problem := range slices.Sorted(maps.Keys(byError)) {
		found = append(found, Finding{
			Check: "cloud", Severity: Error,
			What:   problem,
			Why:    "no instance can be made for: " + strings.Join(byError[problem], ", "),
			Change: "image, flavor or network there, in all.yml",
		})
	}
	return found
}

// quota checks that all declared nodes fit into the project.
func quota(facts Facts) (found []Finding) {
	if facts.Room == nil {
		return nil
	}
	var least, most reconfigure.Use
	add := func(sum *reconfigure.Use, s reconfigure.Source, n int) {
		one := facts.Room.Flavors[facts.Sources[s].FlavorID]
		sum.Instances += n
		sum.Cores += n * one.Cores
		sum.RAM += n * one.RAM
	}
	if !facts.Cluster.Attached() {
		add(&least, facts.Cluster.Control.Source, 1)
		add(&most, facts.Cluster.Control.Source, 1)
	}
	for _, g := range facts.Cluster.Groups {
		add(&least, g.Source, g.Min)
		add(&most, g.Source, g.Max)
	}
	for _, part := range []struct {
		what               string
		limit, least, most int
	}{
		{"instances", facts.Room.Limit.Instances, least.Instances, most.Instances},
		{"cores", facts.Room.Limit.Cores, least.Cores, most.Cores},
		{"MiB of memory", facts.Room.Limit.RAM, least.RAM, most.RAM},
	} {
		finding := Finding{
			Check:  "quota",
			Change: "a larger quota, or smaller max_nodes and min_nodes in all.yml",
		}
		switch {
		case part.limit < 0: // no limit
			continue
		case part.least > part.limit:
			finding.Severity = Error
			finding.What = fmt.Sprintf(
				"the project may have %d %s, but the persistent nodes need %d",
				part.limit,
				part.what,
				part.least,
			)
			finding.Why = "the cluster cannot be deployed"
		case part.most > part.limit:
			finding.Severity = Warning
			finding.What = fmt.Sprintf(
				"the project may have %d %s, but all declared nodes need %d",
				part.limit,
				part.what,
				part.most,
			)
			finding.Why = "Slurm allocates nodes that cannot be made; their jobs are requeued until others have ended"
		default:
			continue
		}
		found = append(found, finding)
	}
	return found
}

// partitions checks that jobs can get the nodes of each group.
func partitions(facts Facts) (found []Finding) {
	for _, g := range facts.Cluster.Groups {
		if slices.ContainsFunc(facts.Cluster.Partitions, func(p reconfigure.Partition) bool {
			return slices.Contains(p.Groups, g.Name)
		}) {
			continue
		}
		found = append(found, Finding{
			Check: "partitions", Severity: Warning,
			What:   fmt.Sprintf("the group %s is in no partition", g.Name),
			Why:    "no job can use its nodes",
			Change: fmt.Sprintf("add %s to the groups of a partition in all.yml; then reconfigure deploy", g.Name),
		})
	}
	return found
}

// firewall checks from where the nodes can be reached.
func firewall(facts Facts) []Finding {
	declared := facts.Cluster.AllowedCIDRs
	switch {
	case facts.Provider.Name == "": // unknown
		return nil
	case !facts.Provider.Module.Firewall && len(declared) > 0:
		return []Finding{{
			Check: "firewall", Severity: Warning,
			What:   fmt.Sprintf("allowed_cidrs has no effect with provider %s", facts.Provider.Name),
			Why:    "the nodes can be reached from everywhere that can reach their network",
			Change: "remove allowed_cidrs from all.yml, and restrict access in the network",
		}}
	case facts.Provider.Module.Firewall && (len(declared) == 0 || slices.ContainsFunc(declared, isAnywhere)):
		return []Finding{{
			Check: "firewall", Severity: Note,
			What: "the security group allows SSH and ping from any address",
			Why:  "if the network of the nodes is public, anybody can try to log in to them",
			Change: "allowed_cidrs: [192.0.2.0/24] in all.yml, with the networks of this host and of the users; " +
				"then reconfigure deploy",
		}}
	}
	return nil
}

// isAnywhere reports whether a network has all addresses.
func isAnywhere(cidr string) bool { return strings.HasSuffix(cidr, "/0") }

// Server is a server of the project, of any owner.
type Server struct {
	ID      string
	Name    string
	Cluster string // the cluster's name in its metadata; empty: it belongs to no cluster
	Ours    bool   // it belongs to this cluster
}

// names checks that no other server in the project has the cluster's name, or a name of its nodes.
func names(facts Facts) (found []Finding) {
	declared := facts.Cluster.Nodes().Union(nodeset.Of(facts.Cluster.Control.Name))
	var namesakes, others []string
	for _, s := range facts.Servers {
		switch {
		case s.Ours:
		case s.Cluster == facts.Cluster.Name:
			namesakes = append(namesakes, s.Name)
		case declared.Contains(s.Name):
			others = append(others, s.Name)
		}
	}
	if len(namesakes) > 0 {
		found = append(found, Finding{
			Check: "names", Severity: Warning,
			What: fmt.Sprintf("another cluster with the name %s is in the project, with the instances %s",
				facts.Cluster.Name, nameList(namesakes)),
			Why:    "people confuse the two, and earlier releases of this program remove the other's instances",
			Change: "another cluster_name in the newer one's all.yml, before its first deploy",
		})
	}
	if len(others) > 0 {
		found = append(found, Finding{
			Check: "names", Severity: Warning,
			What:   "other instances of the project have names of nodes of this cluster: " + nameList(others),
			Why:    "in the network's DNS, such a name has two addresses; people and tools confuse the two",
			Change: "`reconfigure adopt`, or another prefix in node_groups while the group has no instances",
		})
	}
	return found
}

// nameList returns a list of server names, which need not be names of nodes. A long list is cut.
func nameList(names []string) string {
	const most = 10
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
