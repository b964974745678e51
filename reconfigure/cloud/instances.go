package cloud

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Tempo has the time limits and intervals of an adapter that shuts guests down.
type Tempo struct {
	Poll time.Duration // between two polls of an instance
	Soft time.Duration // until a guest has shut down
}

// UsualTempo returns the tempo for real clouds.
func UsualTempo() Tempo { return Tempo{Poll: time.Second, Soft: 2 * time.Minute} }

// Instance is one of all instances that an adapter finds, whosever it is, with the marks that the root module writes.
type Instance struct {
	reconfigure.Server
	Name               string // in the cloud
	Cluster, ClusterID string // empty: none
}

// Ours reports whether an instance counts as the cluster's.
func Ours(access reconfigure.Access, clusterID string) bool {
	return access.Identity.ID != "" && clusterID == access.Identity.ID
}

// ProjectServers returns all instances, by the names of their nodes.
func ProjectServers(access reconfigure.Access, all []Instance) []reconfigure.ProjectServer {
	var found []reconfigure.ProjectServer
	for _, i := range all {
		name := i.Name
		if i.Node != "" {
			name = i.Node
		}
		found = append(found, reconfigure.ProjectServer{
			ID: i.ID, Name: name, Cluster: i.Cluster, Ours: Ours(access, i.ClusterID),
		})
	}
	return found
}

// Namesakes returns the instances with the cluster's name and another id, by that id.
func Namesakes(access reconfigure.Access, all []Instance) map[string][]reconfigure.Server {
	others := map[string][]reconfigure.Server{}
	for _, i := range all {
		if i.Cluster == access.Cluster && !Ours(access, i.ClusterID) {
			others[i.ClusterID] = append(others[i.ClusterID], i.Server)
		}
	}
	return others
}

// Removable returns an error unless an instance has the cluster's id and the name, and was created before the time.
func Removable(access reconfigure.Access, i Instance, name string, before time.Time) error {
	switch {
	case !Ours(access, i.ClusterID):
		return fmt.Errorf("instance %s is not removed: it does not have the id of cluster %q", i.ID, access.Cluster)
	case i.Node != name:
		return fmt.Errorf("instance %s is not removed: its name is %q, not %q", i.ID, i.Node, name)
	case i.Created.IsZero():
		return fmt.Errorf("instance %s is not removed: it is not known when it was created", i.ID)
	case !i.Created.Before(before):
		return fmt.Errorf("instance %s is not removed: it was created at %s, which is too recent", i.ID,
			i.Created.Format(time.RFC3339))
	}
	return nil
}

// IPv4 reports whether a text has the form of an IPv4 address.
func IPv4(text string) bool { return ipv4.MatchString(text) }

var ipv4 = regexp.MustCompile(`^\d+\.\d+\.\d+\.\d+$`)

// FirstIPv4 returns the first IPv4 address among the values of an attribute in Terraform's state; empty if there is
// none.
func FirstIPv4(values ...any) string {
	for _, one := range values {
		if address, ok := one.(string); ok && IPv4(address) {
			return address
		}
	}
	return ""
}

// LastLines returns the last lines of a text, or all for zero.
func LastLines(text string, lines int) string {
	if lines <= 0 {
		return text
	}
	all := slices.Collect(strings.Lines(text))
	return strings.Join(all[max(0, len(all)-lines):], "")
}
