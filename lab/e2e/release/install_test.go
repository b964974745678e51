package release_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/await"
	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/machine"
	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// patience is the limit of each wait.
const patience = 5 * time.Minute

// server is a machine with Debian's packages that a control host needs, and the releases.
type server struct {
	*machine.Host
	id string
}

const (
	// The releases are in this folder of a machine.
	folder = "/srv/releases"
	// network is the machines' network, with the address of this computer there.
	network = "10.80.0.1/24"
	// hostAddress is the address of the machine there.
	hostAddress = "10.80.0.2"
	// nodeImage is the id of an image without the packages.
	nodeImage = "00000000-0000-4000-8000-0000000000a0"
)

// boot boots a machine of a base with the packages of an archive.
func boot(t *testing.T, base, archive string) server {
	t.Helper()
	files, err := image.Archive(archive)
	if err != nil {
		t.Fatal(err)
	}
	for version, dir := range map[string]string{"older": releases.older, "newer": releases.newer} {
		for _, name := range list(t, dir) {
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			files[folder+"/"+version+"/"+name] = string(content)
		}
	}
	declaration, err := os.ReadFile("../../../group_vars/all.yml")
	if err != nil {
		t.Fatal(err)
	}
	files["/srv/all.yml"] = string(declaration)
	dir := t.TempDir()
	images, err := image.NewStore(filepath.Join(dir, "images"), base)
	if err == nil {
		err = images.Add("host", files)
	}
	if err == nil {
		err = images.Add(nodeImage, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	host, err := machine.New(machine.Config{
		Name: "release", Dir: filepath.Join(dir, "machines"), Gateway: netip.MustParsePrefix(network),
		Images: images, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	s := server{host, "00000000-0000-4000-8000-000000000001"}
	if err := host.Boot(t.Context(), labcloud.Machine{
		ID: s.id, Name: "host", ImageID: "host",
		Addresses: []labcloud.Address{{
			MAC: "fa:16:3e:00:00:01", Prefix: netip.MustParsePrefix(hostAddress + "/24"),
			Gateway: netip.MustParsePrefix(network).Addr(),
		}},
	}); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "systemctl is-system-running | grep -qE 'running|degraded'")
	return s
}

// sh runs a script in the machine as root, and returns what it prints.
func (s server) sh(t *testing.T, script string) string {
	t.Helper()
	out, err := s.Command(s.id, "sh", "-ec", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// eventually runs a script until it succeeds.
func (s server) eventually(t *testing.T, script string) {
	t.Helper()
	var out []byte
	var err error
	succeeds := func() bool {
		out, err = s.Command(s.id, "sh", "-ec", script).CombinedOutput()
		return err == nil
	}
	if !await.Until(t.Context(), patience, succeeds) {
		t.Fatalf("%s: %v\n%s\n%s", script, err, out, s.sh(t, "journalctl --no-pager --lines 50"))
	}
}

// from makes apt use the repository of a release, and installs the package.
func (s server) from(t *testing.T, release, options string) string {
	t.Helper()
	return s.sh(t, fmt.Sprintf("echo 'deb [%s] file:%s/%s ./' >/etc/apt/sources.list.d/eiffel.list\n"+
		"export DEBIAN_FRONTEND=noninteractive; apt-get update --quiet && apt-get install --yes --quiet eiffel",
		options, folder, release))
}

// TestTheLifeOfThePackage installs the package for Debian, has its unit run a worker of a site, and upgrades, removes
// and purges it. All dependencies are Debian's packages.
func TestTheLifeOfThePackage(t *testing.T) {
	p := needs.Systemd(t, "../../..")
	t.Run("Debian 12", func(t *testing.T) { live(t, boot(t, p.Systemd, p.SystemdArchive)) })
	t.Run("Debian 13", func(t *testing.T) { live(t, boot(t, p.Trixie, p.TrixieArchive)) })
}

func live(t *testing.T, s server) {
	const (
		site   = "/etc/eiffel/test"
		unit   = "reconfigure-worker@etc-eiffel-test.service"
		signed = "signed-by=" + folder + "/newer/eiffel.asc"
	)
	out, err := s.Command(s.id, "sh", "-ec", "echo 'deb file:"+folder+"/older ./' >/etc/apt/sources.list.d/eiffel.list\n"+
		"apt-get update --quiet").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is not signed") {
		t.Errorf("apt takes an unsigned repository: %v\n%s", err, out)
	}
	s.from(t, "older", "trusted=yes")
	// dpkg leaves out documents in a machine of the lab.
	verify := "dpkg --verify eiffel | grep --invert-match --extended-regexp ' /usr/share/(doc|man)/' || :; "
	if got := s.sh(t, verify+"reconfigure --version"); !strings.HasPrefix(got, "reconfigure v"+older+" ") {
		t.Errorf("after the installation: %s", got)
	}
	if got := s.sh(t, "getent passwd eiffel | cut -d : -f 6-; getent shadow eiffel | cut -d : -f 2; "+
		"stat --format '%U' /var/lib/eiffel"); got != "/var/lib/eiffel:/bin/bash\n*\neiffel" {
		t.Errorf("the user: %s", got)
	}

	s.sh(t, "install -d -o eiffel -g eiffel "+site+" "+site+"/group_vars\n"+
		"install -o eiffel -g eiffel -m 644 /srv/all.yml "+site+"/group_vars/all.yml\n"+
		"systemctl enable --now "+unit)
	s.eventually(t, "test -e "+site+"/state/journal.db")
	// polkit lets the user start the service, and nothing else.
	s.sh(t, "systemctl stop "+unit+"\nrunuser -u eiffel -- systemctl start --no-ask-password "+unit)
	s.sh(t, "! runuser -u eiffel -- systemctl stop --no-ask-password "+unit)

	// The folder of the backups belongs to the user, and nobody else can read it.
	const timer = "reconfigure-backup@etc-eiffel-test"
	s.sh(t, "systemctl enable --now "+timer+".timer; systemctl start "+timer+".service")
	if got := s.sh(t, "stat --format '%U %a' /var/lib/eiffel-backup/etc-eiffel-test "+
		"/var/lib/eiffel-backup/etc-eiffel-test/*.tar.gz"); got != "eiffel 700\neiffel 600" {
		t.Errorf("the backup: %s", got)
	}

	s.from(t, "newer", signed)
	if got := s.sh(t, "reconfigure --version"); !strings.HasPrefix(got, "reconfigure v"+newer+" ") {
		t.Errorf("after the upgrade: %s", got)
	}
	const running = "cmp /usr/bin/reconfigure /proc/$(systemctl show --value --property MainPID " + unit + ")/exe"
	s.eventually(t, running)

	if got := s.sh(t, "apt-get remove --yes --quiet eiffel"); !strings.Contains(got, "the sites in /etc/eiffel") {
		t.Errorf("the removal does not say what stays:\n%s", got)
	}
	// sh -e ignores the status of a command after !.
	s.sh(t, "test ! -e /usr/bin/reconfigure; test -e "+site+"/state/journal.db; "+
		"test -e /var/lib/eiffel-backup/*/*.tar.gz\n"+
		"if systemctl is-active --quiet "+unit+" || systemctl is-active --quiet "+timer+".timer; then exit 1; fi")
	s.sh(t, "apt-get purge --yes --quiet eiffel")
	s.sh(t, "test -e "+site+"/state/journal.db; getent passwd eiffel; test ! -L "+
		"/etc/systemd/system/multi-user.target.wants/"+unit+"; test ! -L /etc/systemd/system/timers.target.wants/"+timer+
		".timer; ! dpkg-query --show eiffel")
}
