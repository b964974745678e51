// Package attach_test tests on a lab a cluster that the project's playbooks did not make: another hand sets up its
// control node and its static node. reconfigure attaches to it, and detaches again.
package attach_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

var lab harness.Lab

// static is the site's own node.
const static = "static1"

func TestMain(m *testing.M) {
	lab.Deploy = setUp
	name, network := "attach", "10.83.0.1/24"
	if os.Getenv(harness.ReleaseVariable) == harness.Trixie {
		name, network = "attach-13", "10.84.0.1/24"
	}
	os.Exit(lab.Main(m, cluster.Config{
		Name: name, Gateway: netip.MustParsePrefix(network),
		Groups:     []cluster.NodeGroup{cluster.Group("cloud", "node", 0, 2)},
		Partitions: []cluster.Partition{{Name: "burst", Groups: []string{"cloud"}}},
	}, nil))
}

// conf is the slurm.conf of the site, as an administrator writes it: tabs, upper case, a continued line, a byte not of
// UTF-8, and no newline at the end.
const conf = "# Slurm of the university, M\xfcnster\r\n" + `ClusterName=university
SlurmctldHost=ctl
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/spool/slurm-state
SLURMDSPOOLDIR=/var/spool/slurmd.site	# on each node
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=5
KillWait=\
5
NodeName=DEFAULT CPUs=2 RealMemory=500
Include site/nodes.conf
# end`

// install is what the site's administrator did on each node. The first line of its input is the address of the
// control node, the second that of the static node.
const install = `set -e
printf '%[1]s ctl\n%[2]s static1\n' >>/etc/hosts
base64 -d >/etc/munge/munge.key <<END
%[3]s
END
chown munge:munge /etc/munge/munge.key
chmod 0400 /etc/munge/munge.key
mkdir -p /etc/slurm/site /var/log/slurm /var/spool/slurm-state /var/spool/slurmd.site
chown slurm: /var/log/slurm /var/spool/slurm-state
base64 -d >/etc/slurm/slurm.conf <<END
%[4]s
END
cat >/etc/slurm/site/nodes.conf <<END
nodename = static1 NodeAddr=%[2]s State=UNKNOWN
PartitionName=work Nodes=static1 Default=YES MaxTime=INFINITE
END
echo CgroupPlugin=%[5]s >/etc/slurm/cgroup.conf
service munge restart
service %[6]s restart
`

// setUp makes the two servers as a person would, sets up Slurm by a script, and logs in to the control node once.
func setUp(ctx context.Context) error {
	addresses, err := makeServers(ctx, cluster.ControlNodeName, static)
	if err != nil {
		return err
	}
	for _, daemon := range [][2]string{{cluster.ControlNodeName, "slurmctld"}, {static, "slurmd"}} {
		if err := installed(ctx, daemon[0], daemon[1], addresses); err != nil {
			return err
		}
	}
	d := lab.Declaration
	d.ControlNode = cluster.ControlNode{Existing: addresses[0]}
	d.Slurm.Extra = nil
	if err := lab.Declare(d); err != nil {
		return err
	}
	out, err := lab.OnControlHost(ctx, lab.Site, "ssh", "-o", "StrictHostKeyChecking=accept-new",
		"debian@"+addresses[0], "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("the first login: %w\n%s", err, out)
	}
	return nil
}

func installed(ctx context.Context, node, daemon string, addresses []string) error {
	plugin := "cgroup/v1" // no cgroup file system is there
	if os.Getenv(harness.ReleaseVariable) == harness.Trixie {
		plugin = "disabled"
	}
	script := fmt.Sprintf(install, addresses[0], addresses[1], mungeKey, encoded(conf), plugin, daemon)
	for ctx.Err() == nil {
		if lab.Command(node, "test", "-e", "/run/sshd.pid").Run() == nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if out, err := lab.Command(node, "sh", "-c", script).CombinedOutput(); err != nil {
		return fmt.Errorf("set up %s: %w\n%s", node, err, out)
	}
	return nil
}

// makeServers makes servers that Terraform does not know, and returns their addresses.
func makeServers(ctx context.Context, names ...string) (addresses []string, err error) {
	url, err := os.ReadFile(lab.CloudsFile())
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(url), "auth_url:")
	endpoint := strings.Trim(strings.Fields(rest)[0], `"'`)
	provider, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{IdentityEndpoint: endpoint,
		Username: "lab", Password: cluster.Password, DomainName: "Default", TenantName: "lab", AllowReauth: true})
	if err != nil {
		return nil, err
	}
	region := gophercloud.EndpointOpts{Region: "RegionOne"}
	compute, err := openstack.NewComputeV2(provider, region)
	if err != nil {
		return nil, err
	}
	network, err := openstack.NewNetworkV2(provider, region)
	if err != nil {
		return nil, err
	}
	pages, err := networks.List(network, networks.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	nets, err := networks.ExtractNetworks(pages)
	if err != nil {
		return nil, err
	}
	pages, err = flavors.ListDetail(compute, nil).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	sizes, err := flavors.ExtractFlavors(pages)
	if err != nil {
		return nil, err
	}
	if _, err := keypairs.Create(ctx, compute, keypairs.CreateOpts{Name: "university",
		PublicKey: lab.Declaration.KeyPair.PublicKey}).Extract(); err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := servers.Create(ctx, compute, keypairs.CreateOptsExt{KeyName: "university",
			CreateOptsBuilder: servers.CreateOpts{Name: name, ImageRef: cluster.ImageID(cluster.ImageV1),
				FlavorRef: sizes[0].ID, Networks: []servers.Network{{UUID: nets[0].ID}}}}, nil).Extract(); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		for {
			if s, ok := lab.Server(name); ok && s.Status == "ACTIVE" {
				addresses = append(addresses, s.Addresses[0].String())
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return addresses, ctx.Err()
}
