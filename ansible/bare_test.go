package site_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// firstBoot makes programs of the first boot use apt while sshd already answers, as apt-daily does: one installs a
// package, and another reads the lists. hold keeps their locks until the test releases them.
func firstBoot() map[string]string {
	return map[string]string{
		"/var/lib/cloud/seed/nocloud/user-data": `#cloud-config
apt: {preserve_sources_list: true}
runcmd: [[systemd-run, --no-block, /usr/local/sbin/first-boot]]
`,
		"/usr/local/sbin/first-boot": `#!/bin/sh
apt-get update
touch /run/hold-lists /run/hold-packages
apt-get install --yes less &
until [ -s /run/packages ]; do sleep 0.1; done
apt-get update
wait
`,
		"/etc/apt/apt.conf.d/90hold": `APT::Update::Pre-Invoke {"/usr/local/sbin/hold lists"};
DPkg::Pre-Invoke {"/usr/local/sbin/hold packages"};
`,
		"/usr/local/sbin/hold": `#!/bin/sh
[ -e /run/hold-$1 ] || exit 0
echo held >>/run/$1
until [ -e /run/let-go-$1 ]; do sleep 0.1; done
`,
	}
}

// TestABareNode configures a node from an image as Debian makes it: cloud-init prepares the node, Slurm's packages are
// missing, and other programs hold apt's locks. The machines have no network; the packages are in the image.
func TestABareNode(t *testing.T) {
	t.Parallel()
	installed := needs.Systemd(t, "..")
	m := newMachines(t, 9)
	files, err := image.Archive(installed.BareArchive)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range firstBoot() {
		files[path] = content
	}
	if err := m.store.AddTo(installed.Bare, "bare", files); err != nil {
		t.Fatal(err)
	}
	m.boot("ctl", 10)
	m.configure("ctl")
	m.bootFrom("bare", "node01", 11)
	if there := m.on("node01", "sh", "-c", "command -v slurmd munged scontrol; true"); there != "" {
		t.Fatalf("the image has %s: the test proves nothing", there)
	}
	held := func(lock string, times int) func() bool {
		return func() bool {
			out, _ := m.host.Command("node01", "cat", "/run/"+lock).Output() // it may not exist yet
			return strings.Count(string(out), "held") >= times
		}
	}
	m.within(bootPatience, "apt's locks are held", func() bool { return held("packages", 1)() && held("lists", 1)() })

	run := m.installs("node01")
	m.within(bootPatience, "the playbooks wait for the lists", m.waits("node01"))
	m.on("node01", "touch", "/run/let-go-lists")
	m.within(bootPatience, "the playbooks have read the lists", held("lists", 2))
	m.within(bootPatience, "the playbooks wait for dpkg", m.waits("node01"))
	m.on("node01", "touch", "/run/let-go-packages")
	if took, waited := run.end(); took == 0 || waited < holds || waited > took {
		t.Errorf("the installation took %s, of which it waited %s", took, waited)
	}
	m.within(bootPatience, "the node has registered", func() bool { return strings.HasPrefix(m.slurm("node01"), "IDLE") })
	m.on("node01", "test", "-x", "/usr/bin/less")

	again := m.installs("node01")
	if took, _ := again.end(); took != 0 {
		t.Errorf("existing packages were installed again, for %s", took)
	}
}

// holds is the minimum time for which a lock is held while the playbooks wait for it.
const holds = 2 * time.Second

// waits reports whether the module has run on a machine for at least the time holds. Ansible unpacks it there.
func (m *machines) waits(node string) func() bool {
	var since time.Time
	return func() bool {
		if m.host.Command(node, "sh", "-c", "ls -d /tmp/ansible_install_packages_payload_*").Run() != nil {
			since = time.Time{}
			return false
		}
		if since.IsZero() {
			since = time.Now()
		}
		return time.Since(since) > holds
	}
}

// installation is a run of the playbooks.
type installation struct {
	*machines
	ended chan error
	log   bytes.Buffer
	notes []string
	took  time.Duration
}

// installs begins a run of the playbooks on a node.
func (m *machines) installs(node string) *installation {
	m.Helper()
	i := &installation{machines: m, ended: make(chan error, 1)}
	runner := ansible.New(ansible.Config{Dir: m.dir, Env: os.Environ(), Log: &i.log})
	m.Cleanup(func() {
		if m.Failed() {
			m.Logf("%v\n%s", <-i.ended, i.log.String())
		}
	})
	go func() {
		defer close(i.ended)
		failures, err := runner.Configure(m.Context(), m.cluster, m.instances,
			reconfigure.Extent{Changed: nodeset.Of(node)},
			func(_, message string) { i.notes = append(i.notes, message) },
			func(_ string, seen reconfigure.Configured, _ error) { i.took = seen.Installing })
		if err == nil && len(failures) > 0 {
			err = fmt.Errorf("%v", failures)
		}
		i.ended <- err
	}()
	return i
}

var waitedFor = regexp.MustCompile(`packages were installed in \d+ s; for (\d+) s of them`)

// end waits until the run has ended, and returns how long it installed packages, and how much of that it waited for
// locks.
func (i *installation) end() (took, waited time.Duration) {
	i.Helper()
	if err := <-i.ended; err != nil {
		i.Fatalf("%v\n%s", err, i.log.String())
	}
	for _, note := range i.notes {
		if said := waitedFor.FindStringSubmatch(note); said != nil {
			seconds, err := strconv.Atoi(said[1])
			if err != nil {
				i.Fatal(err)
			}
			waited += time.Duration(seconds) * time.Second
		}
	}
	i.Logf("packages were installed for %s, %s of it waiting", i.took, waited)
	return i.took, waited
}
