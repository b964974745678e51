package release_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// TestTheWayOfThePackage goes the way of a new user on a machine without anything: apt install, init, deploy, the first
// job, an upgrade while a job runs, remove and purge.
func TestTheWayOfThePackage(t *testing.T) {
	generation.OnlyFull(t)
	t.Attr("scenario", "the package: apt install, init, deploy, a job, an upgrade beside a job, remove and purge")
	p := needs.Systemd(t, "../../..")
	if os.Getenv(harness.ReleaseVariable) == harness.Trixie {
		way(t, p, boot(t, p.Trixie, p.TrixieArchive))
		return
	}
	way(t, p, boot(t, p.Systemd, p.SystemdArchive))
}

const (
	siteOfWay = "/etc/eiffel/hpc"
	unitOfWay = "reconfigure-worker@etc-eiffel-hpc.service"
)

func way(t *testing.T, p tools.Paths, s server) {
	began := time.Now()
	cloud := s.cloud(t)
	timed := func(what string, do func()) {
		t.Helper()
		from := time.Now()
		do()
		t.Logf("%5.1f s  %s", time.Since(from).Seconds(), what)
	}

	timed("apt install eiffel", func() { s.from(t, "older", "trusted=yes") })
	s.terraform(t, p)
	timed("make a key and the folder, and put clouds.yaml there", func() {
		s.sh(t, "install -d -o eiffel -g eiffel "+siteOfWay)
		s.as(t, "ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519")
		s.sh(t, "install -o eiffel -g eiffel -m 600 /srv/clouds.yaml "+siteOfWay+"/clouds.yaml")
	})
	timed("reconfigure init", func() {
		s.as(t, "reconfigure init "+siteOfWay+" --cloud lab --image debian --flavor m1.small --flavor m1.large "+
			"--network cluster --login-user debian --address "+hostAddress)
	})
	declaration := s.sh(t, "cat "+siteOfWay+"/all.yml")
	if n := len(strings.Split(declaration, "\n")); n > 25 {
		t.Errorf("all.yml has %d lines", n)
	}
	t.Logf("all.yml:\n%s", declaration)
	timed("reconfigure deploy", func() { s.as(t, "reconfigure deploy") })
	timed("systemctl enable --now, for the worker", func() { s.sh(t, "systemctl enable --now "+unitOfWay) })
	timed("the first job, on a node that did not exist", func() {
		if said := s.control(t, cloud, "srun --immediate=600 hostname"); said != "small001" {
			t.Errorf("the job prints %q", said)
		}
	})
	t.Logf("%5.1f s  in all, from apt install to the first job", time.Since(began).Seconds())

	job := s.control(t, cloud, "sbatch --parsable --output=/dev/null --wrap='until [ -e /tmp/go ]; do sleep 1; done'")
	runs := "test \"$(squeue --noheader --jobs=" + job + " --format=%T)\" = RUNNING"
	s.control(t, cloud, "until "+runs+"; do sleep 1; done")
	before := serverIDs(cloud)
	timed("apt install of the newer version, while a job runs", func() {
		s.from(t, "newer", "signed-by="+folder+"/newer/eiffel.asc")
	})
	s.eventually(t, "cmp /usr/bin/reconfigure /proc/$(systemctl show --value --property MainPID "+unitOfWay+")/exe")
	if said := s.as(t, "reconfigure plan upgrade"); !strings.Contains(said, "no change of an instance") {
		t.Errorf("plan upgrade prints\n%s", said)
	}
	timed("reconfigure deploy of the newer version", func() { s.as(t, "reconfigure deploy") })
	s.control(t, cloud, runs)
	if after := serverIDs(cloud); after != before {
		t.Errorf("the instances were %s, and are %s", before, after)
	}
	s.node(t, cloud, "small001", "touch /tmp/go")
	ended := "scontrol show job " + job
	s.control(t, cloud, "until "+ended+" | grep -qE 'JobState=(COMPLETED|FAILED|NODE_FAIL|CANCELLED)'; do sleep 1; done")
	if said := s.control(t, cloud, ended); !strings.Contains(said, "JobState=COMPLETED") || !strings.Contains(said, "Restarts=0") {
		t.Errorf("the job of the upgrade:\n%s", said)
	}

	s.sh(t, "apt-get remove --yes --quiet eiffel; apt-get purge --yes --quiet eiffel; test ! -e /usr/bin/reconfigure")
	s.sh(t, "test -e "+siteOfWay+"/all.yml; test -e "+siteOfWay+"/state/journal.db; test -e /var/lib/eiffel/.ssh/id_ed25519")
	if after := serverIDs(cloud); after != before {
		t.Errorf("after the purge the instances are %s, and were %s", after, before)
	}
}

// cloud starts a cloud whose servers are machines beside this one. Its API listens on their network, and its
// clouds.yaml is /srv/clouds.yaml on this machine.
func (s server) cloud(t *testing.T) *labcloud.Cloud {
	t.Helper()
	gateway := netip.MustParsePrefix(network)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cloud, err := labcloud.New(labcloud.Config{
		Project: "lab", User: "lab", Password: "a-password",
		Networks: []labcloud.Network{{
			Name: "cluster", CIDR: gateway.Masked(), Gateway: gateway.Addr(), First: netip.MustParseAddr("10.80.0.10"),
		}},
		// slurmd finds the cores of this computer on each node.
		Flavors: []labcloud.Flavor{{Name: "m1.small", VCPUs: 2, RAM: 2048, Disk: 10}, {Name: "m1.large", VCPUs: 2, RAM: 4096, Disk: 10}},
		Images:  []labcloud.Image{{ID: nodeImage, Name: "debian"}},
		Timings: labcloud.Timings{Build: time.Second, Reboot: time.Second, Delete: time.Second},
		Log:     log,
	}, s.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cloud.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	listener, err := net.Listen("tcp", netip.AddrPortFrom(gateway.Addr(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	api := &http.Server{Handler: cloud.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = api.Serve(listener) }()
	t.Cleanup(func() { _ = api.Close() })
	s.put(t, "srv/clouds.yaml", string(cloud.CloudsYAML("lab", "http://"+listener.Addr().String())))
	return cloud
}

// terraform installs Terraform for the user of the sites.
func (s server) terraform(t *testing.T, p tools.Paths) {
	t.Helper()
	root, err := s.Root(s.id)
	if err == nil {
		_, err = p.CopyTerraform(root, "var/lib/eiffel")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// put writes a file of the machine.
func (s server) put(t *testing.T, name, text string) {
	t.Helper()
	root, err := s.Root(s.id)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, name), []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// as runs a script in the site's folder, as its user after a login.
func (s server) as(t *testing.T, script string) string {
	t.Helper()
	return s.sh(t, "su --login eiffel --command "+quoted("cd "+siteOfWay+" && "+script))
}

// control runs a script on the control node, as the login user.
func (s server) control(t *testing.T, cloud *labcloud.Cloud, script string) string {
	t.Helper()
	return s.node(t, cloud, "hpc-control", "su --login debian --command "+quoted(script))
}

// node runs a script on a node as root, and returns what it prints.
func (s server) node(t *testing.T, cloud *labcloud.Cloud, name, script string) string {
	t.Helper()
	for _, i := range cloud.Servers() {
		if i.Name != name {
			continue
		}
		out, err := s.Command(i.ID, "sh", "-ec", script).CombinedOutput()
		if err != nil {
			t.Fatalf("%s on %s: %v\n%s", script, name, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	t.Fatalf("the cloud has no server %s", name)
	return ""
}

// quoted returns a text as one word for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// serverIDs returns the names and ids of the servers.
func serverIDs(cloud *labcloud.Cloud) string {
	var all []string
	for _, i := range cloud.Servers() {
		all = append(all, i.Name+" "+i.ID)
	}
	return strings.Join(all, ", ")
}
