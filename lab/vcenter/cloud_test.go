package vcenter

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/netip"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// hypervisor records its calls. Each command in a machine sets the same setting.
type hypervisor struct {
	labcloud.Null
	lock  sync.Mutex
	calls []string
	last  labcloud.Machine
}

func (h *hypervisor) called(what string) error {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.calls = append(h.calls, what)
	return nil
}

func (h *hypervisor) Boot(_ context.Context, m labcloud.Machine) error {
	h.lock.Lock()
	h.last = m
	h.lock.Unlock()
	return h.called("boot")
}

func (h *hypervisor) Stop(ctx context.Context, _ string) error {
	if ctx.Err() != nil {
		return h.called("switch off")
	}
	return h.called("shut down")
}

func (h *hypervisor) Reboot(context.Context, string, bool) error { return h.called("reboot") }
func (h *hypervisor) Destroy(context.Context, string) error      { return h.called("destroy") }

func (h *hypervisor) Console(string, int) (string, error) {
	return "-----END SSH HOST KEY KEYS-----\n", nil
}

func (h *hypervisor) Command(string, ...string) *exec.Cmd {
	return exec.Command("echo", "info-set", said, "aGVsbG8=")
}

const said = "guestinfo.said"

// TestAVirtualMachineIsAMachine clones a template, and switches the clone on, resets, reboots, shuts down and removes
// it. Its machine must match its settings and its power state.
func TestAVirtualMachineIsAMachine(t *testing.T) {
	h := &hypervisor{}
	c, err := New(t.Context(), labcloud.Config{
		Images:   []labcloud.Image{{ID: "one", Name: ImageV1}, {ID: "two", Name: ImageV2}},
		Networks: []labcloud.Network{{CIDR: netip.MustParsePrefix("10.9.0.0/24"), Gateway: netip.MustParseAddr("10.9.0.1")}},
		Log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
	}, h)
	must(t, err)
	defer c.Close(t.Context())
	vm := clone(t, c, "eiffel-node1")
	if s := c.Servers(); len(s) != 1 || s[0].Name != "node1" || s[0].Status != "SHUTOFF" || len(h.calls) > 0 {
		t.Fatalf("after the clone: %+v, calls %v", s, h.calls)
	}
	await(t)(vm.PowerOn(t.Context()))
	is := c.Servers()[0]
	if h.last.Name != "node1" || h.last.ImageID != "two" ||
		!slices.Equal(h.last.AuthorizedKeys, []string{"ssh-rsa AAAA"}) || is.Status != "ACTIVE" ||
		is.ID != h.last.ID || is.Image != "two" ||
		!slices.Equal(is.Addresses, []netip.Addr{h.last.Addresses[0].Prefix.Addr()}) ||
		h.last.Addresses[0].Prefix.String() != "10.9.0.2/24" || h.last.Addresses[0].Gateway.String() != "10.9.0.1" {
		t.Errorf("the machine is %+v, the server %+v", h.last, is)
	}
	awaitSetting(t, vm, said, "aGVsbG8=")
	await(t)(vm.Reset(t.Context()))
	must(t, vm.RebootGuest(t.Context()))
	c.machines.guests.Wait()
	must(t, vm.ShutdownGuest(t.Context()))
	for off := false; !off; { // until the test's time limit
		state, err := vm.PowerState(t.Context())
		must(t, err)
		off = state == types.VirtualMachinePowerStatePoweredOff
	}
	await(t)(vm.Destroy(t.Context()))
	want := []string{"boot", "switch off", "boot", "reboot", "shut down", "destroy"}
	if !slices.Equal(h.calls, want) || len(c.Servers()) > 0 {
		t.Errorf("the hypervisor was called for %q, want %q; servers %+v", h.calls, want, c.Servers())
	}
	next := clone(t, c, "eiffel-node1")
	await(t)(next.PowerOn(t.Context()))
	if got := h.last.Addresses[0].Prefix.Addr().String(); got != "10.9.0.3" || h.last.ID == is.ID {
		t.Errorf("the next machine is %s at %s", h.last.ID, got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await waits for a task, which must succeed.
func await(t *testing.T) func(*object.Task, error) {
	return func(task *object.Task, err error) {
		t.Helper()
		must(t, err)
		must(t, task.Wait(t.Context()))
	}
}

// clone makes a clone of the second template with a seed. It is off.
func clone(t *testing.T, c *Cloud, name string) *object.VirtualMachine {
	t.Helper()
	finder, err := c.Finder(t.Context())
	must(t, err)
	pool, err := finder.ResourcePool(t.Context(), Pool)
	must(t, err)
	folder, err := finder.DefaultFolder(t.Context())
	must(t, err)
	source, err := c.Machine(t.Context(), ImageV2)
	must(t, err)
	in := pool.Reference()
	await(t)(source.Clone(t.Context(), folder, name, types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: &in},
	}))
	vm, err := c.Machine(t.Context(), name)
	must(t, err)
	var settings []types.BaseOptionValue
	for key, text := range map[string]string{
		"guestinfo.metadata": "local-hostname: node1",
		"guestinfo.userdata": "#cloud-config\nssh_authorized_keys: [ssh-rsa AAAA]\nruncmd: [[sh, -c, said]]\n",
	} {
		settings = append(settings, &types.OptionValue{Key: key, Value: base64.StdEncoding.EncodeToString([]byte(text))},
			&types.OptionValue{Key: key + ".encoding", Value: "base64"})
	}
	await(t)(vm.Reconfigure(t.Context(), types.VirtualMachineConfigSpec{ExtraConfig: settings}))
	return vm
}

// awaitSetting waits until a virtual machine has a setting.
func awaitSetting(t *testing.T, vm *object.VirtualMachine, key, value string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var is mo.VirtualMachine
		must(t, vm.Properties(t.Context(), vm.Reference(), []string{"config.extraConfig"}, &is))
		for _, one := range is.Config.ExtraConfig {
			if option := one.GetOptionValue(); option.Key == key && option.Value == value {
				return
			}
		}
		if time.Now().After(late) {
			t.Fatalf("%s is not %s", key, value)
		}
	}
}
