package machine_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
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

// patience is the limit of each wait. On an idle computer, each takes less than a twentieth of it.
const patience = 2 * time.Minute

// testLab is a lab of one test, with a key that is authorized on its machines.
type testLab struct {
	*machine.Host
	dir string
	key string
}

// newLab makes a lab with the images v1 and v2, and no machine.
func newLab(t testing.TB) *testLab {
	t.Helper()
	return newLabOf(t, needs.Tools(t, "../..").Image)
}

// newLabOf is newLab with images above another base.
func newLabOf(t testing.TB, base string) *testLab {
	t.Helper()
	dir := t.TempDir()
	host, err := machine.New(labConfigOf(t, dir, base))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	lab := &testLab{Host: host, dir: dir, key: filepath.Join(dir, "key")}
	run(t, exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", lab.key))
	return lab
}

func labConfig(t testing.TB, dir string) machine.Config {
	t.Helper()
	return labConfigOf(t, dir, needs.Tools(t, "../..").Image)
}

func labConfigOf(t testing.TB, dir, base string) machine.Config {
	t.Helper()
	images, err := image.NewStore(filepath.Join(dir, "images"), base)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"v1", "v2"} {
		if err := images.Add(id, map[string]string{"/etc/image-release": id + "\n"}); err != nil {
			t.Fatal(err)
		}
	}
	return machine.Config{
		Name:    "machtest",
		Dir:     filepath.Join(dir, "machines"),
		Gateway: netip.MustParsePrefix("10.197.0.1/16"),
		Images:  images,
		Log:     slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// spec is the n-th machine of a lab, called node<n>.
func (l *testLab) spec(t testing.TB, n int) labcloud.Machine {
	t.Helper()
	public, err := os.ReadFile(l.key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return labcloud.Machine{
		ID:             fmt.Sprintf("00000000-0000-4000-8000-%012d", n),
		Name:           fmt.Sprintf("node%d", n),
		ImageID:        "v1",
		AuthorizedKeys: []string{strings.TrimSpace(string(public))},
		Addresses: []labcloud.Address{{
			MAC:     fmt.Sprintf("fa:16:3e:00:%02x:%02x", n/256, n%256),
			Prefix:  netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 197, byte(1 + n/250), byte(1 + n%250)}), 16),
			Gateway: netip.MustParseAddr("10.197.0.1"),
		}},
	}
}

func address(m labcloud.Machine) string { return m.Addresses[0].Prefix.Addr().String() }

// boot boots a machine and waits until its sshd answers.
func (l *testLab) boot(t testing.TB, m labcloud.Machine) {
	t.Helper()
	if err := l.Boot(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	l.ssh(t, m, "true")
}

// ssh runs a command on a machine as its login user, as soon as that is possible.
func (l *testLab) ssh(t testing.TB, m labcloud.Machine, command string) string {
	t.Helper()
	var out []byte
	eventually(t, func() error {
		var err error
		cmd := exec.CommandContext(t.Context(), "ssh", "-i", l.key, "-F", "none", "-o", "BatchMode=yes",
			"-o", "ConnectTimeout=1",
			"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
			"debian@"+address(m), command)
		if out, err = cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ssh %s %s: %w\n%s", m.Name, command, err, out)
		}
		return nil
	})
	return strings.TrimSpace(string(out))
}

// inside runs a command in a machine without the network.
func (l *testLab) inside(t testing.TB, m labcloud.Machine, argv ...string) string {
	t.Helper()
	return run(t, l.Command(m.ID, argv...))
}

func (l *testLab) console(t testing.TB, m labcloud.Machine) string {
	t.Helper()
	text, err := l.Console(m.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func run(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return strings.TrimSpace(string(out))
}

// eventually calls f until it succeeds, and fails the test if it does not.
func eventually(t testing.TB, f func() error) {
	t.Helper()
	var err error
	succeeds := func() bool {
		err = f()
		return err == nil
	}
	if !await.Until(t.Context(), patience, succeeds) {
		t.Fatal(err)
	}
}
