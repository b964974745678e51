package labcloud

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"
)

// Config is the initial state of a cloud. Servers, ports, keys and security groups are created by its API.
type Config struct {
	// Project, User and Password are the only ones that Keystone knows; all are in the domain "Default". None may
	// be empty.
	Project, User, Password string
	// Region is the name of the only region; "RegionOne" if it is empty.
	Region string
	// Networks are all networks; the API cannot create others.
	Networks []Network
	// Zones are the availability zones, each with one host; without any there is one, "nova". A server whose zone is not
	// requested gets the first one that suits.
	Zones []string
	// Flavors are all flavors; the API cannot create others.
	Flavors []Flavor
	// Images are the initial images; see also Cloud.AddImage.
	Images []Image
	// Quotas are the project's initial limits; the API can change them.
	Quotas Quotas
	// Timings are the durations of changes.
	Timings Timings
	// Log receives a line for each call that the cloud cannot answer and for each change that fails in the
	// hypervisor. It may be nil.
	Log *slog.Logger
}

// Network is a network with its one subnet, which has the same name.
type Network struct {
	Name string
	// CIDR is the subnet.
	CIDR netip.Prefix
	// First and Last are the bounds of the ports' addresses. If they are zero, the subnet's first and last usable
	// addresses are the bounds.
	First, Last netip.Addr
	// Gateway is the subnet's router, whose address no port gets; zero if there is none.
	Gateway netip.Addr
	// External marks a network that floating IPs come from.
	External bool
}

// Flavor is a size of server.
type Flavor struct {
	// ID may be empty: then it is derived from Name.
	ID, Name string
	VCPUs    int
	// RAM is in MiB.
	RAM int
	// Disk is in GiB.
	Disk int
	// ExtraSpecs are the properties that a scheduler would read.
	ExtraSpecs map[string]string
}

// Image is an image from which servers can be made.
type Image struct {
	// ID is also the hypervisor's name for the image.
	ID   string
	Name string
}

// Quotas are the project's limits. Zero means no limit, as -1 does in the API.
type Quotas struct {
	Instances, Cores int
	// RAM is in MiB.
	RAM                                                    int
	KeyPairs                                               int
	Ports, FloatingIPs, SecurityGroups, SecurityGroupRules int
}

// Timings are the minimum times that servers stay in their transient states before the hypervisor is asked to act. Zero
// means no delay.
type Timings struct {
	Build, Rebuild, Reboot, Resize, Delete time.Duration
	// Power applies to both os-start and os-stop.
	Power time.Duration
	// Snapshot applies to createImage.
	Snapshot time.Duration
	// Token is the lifetime of a token; zero means an hour.
	Token time.Duration
}

// defaults sets the optional fields.
func (cfg Config) defaults() Config {
	if cfg.Region == "" {
		cfg.Region = "RegionOne"
	}
	if cfg.Timings.Token == 0 {
		cfg.Timings.Token = time.Hour
	}
	if len(cfg.Zones) == 0 {
		cfg.Zones = []string{usualZone}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// validate returns all mistakes of cfg in one error.
func (cfg Config) validate() error {
	var errs []error
	if cfg.Project == "" || cfg.User == "" || cfg.Password == "" {
		errs = append(errs, errors.New("project, user and password must be given"))
	}
	for _, f := range cfg.Flavors {
		if f.Name == "" || f.VCPUs < 1 || f.RAM < 1 {
			errs = append(errs, fmt.Errorf("flavor %q needs a name, cores and memory", f.Name))
		}
	}
	for _, n := range cfg.Networks {
		if err := n.validate(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// validate checks a network's addresses against one another.
func (n Network) validate() error {
	if n.Name == "" || !n.CIDR.IsValid() || !n.CIDR.Addr().Is4() || n.CIDR.Bits() > 30 {
		return fmt.Errorf("network %q needs a name and an IPv4 subnet of at least a /30", n.Name)
	}
	for _, a := range []netip.Addr{n.First, n.Last, n.Gateway} {
		if a.IsValid() && !n.CIDR.Contains(a) {
			return fmt.Errorf("network %q: %s is not in %s", n.Name, a, n.CIDR)
		}
	}
	if n.First.IsValid() && n.Last.IsValid() && n.Last.Less(n.First) {
		return fmt.Errorf("network %q: its pool ends before it begins", n.Name)
	}
	return nil
}

// namespace makes stable ids for the resources that Config declares.
var namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("labcloud"))

// stableID returns an id that depends only on a kind and a name.
func stableID(kind, name string) string {
	return uuid.NewSHA1(namespace, []byte(kind+"/"+name)).String()
}

// CloudsYAML returns a clouds.yaml with one cloud of the given name, for an HTTP server with this cloud's handler at
// url (scheme and host, no path).
func (c *Cloud) CloudsYAML(name, url string) []byte {
	type dict = map[string]any
	// Marshalling strings and maps of strings cannot fail.
	text, _ := yaml.Marshal(dict{"clouds": dict{name: dict{
		"auth_type":            "password",
		"region_name":          c.cfg.Region,
		"interface":            "public",
		"identity_api_version": 3,
		"auth": dict{
			"auth_url":            url + "/identity/v3",
			"username":            c.cfg.User,
			"password":            c.cfg.Password,
			"project_name":        c.cfg.Project,
			"user_domain_name":    domainName,
			"project_domain_name": domainName,
		},
	}}})
	return text
}
