package vsphere

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestTableSaysWhatIsWrong(t *testing.T) {
	const good = `clouds: {site: {server: s, user: u, password_file: secret, datacenter: d, datastore: p, ` +
		`resource_pool: r, flavors: {small: {cores: 1, memory: 1, disk: 1}}}}`
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":            {good, ""},
		"a password":         {strings.Replace(good, "password_file: secret", "password: p", 1), ""},
		"hosts, and a pool":  {strings.Replace(good, "resource_pool: r", "resource_pool: r, hosts: [{name: h}]", 1), ""},
		"hosts alone":        {strings.Replace(good, "resource_pool: r", "hosts: [{name: h, cores: 2}]", 1), ""},
		"linked clones":      {strings.Replace(good, "resource_pool: r", "resource_pool: r, clone: linked", 1), ""},
		"no such cloud":      {strings.Replace(good, "site", "other", 1), `no cloud "site"`},
		"no server":          {strings.Replace(good, "server: s, ", "", 1), "server is missing"},
		"no password":        {strings.Replace(good, "password_file: secret, ", "", 1), "password_file is missing"},
		"no such file":       {strings.Replace(good, "file: secret", "file: none", 1), "none: no such file"},
		"a readable file":    {strings.Replace(good, "file: secret", "file: open", 1), "open has mode 0644; make it 0600"},
		"neither pool":       {strings.Replace(good, "resource_pool: r, ", "", 1), "resource_pool or hosts is missing"},
		"an instant clone":   {strings.Replace(good, "server: s", "server: s, clone: instant", 1), "make it linked"},
		"another clone":      {strings.Replace(good, "server: s", "server: s, clone: half", 1), "neither full nor linked"},
		"an empty flavor":    {strings.Replace(good, "cores: 1", "cores: 0", 1), "flavor small"},
		"a negative limit":   {strings.Replace(good, "server: s", "server: s, cores: -1", 1), "negative"},
		"a nameless host":    {strings.Replace(good, "resource_pool: r", "hosts: [{cores: 1}]", 1), "name is missing"},
		"limits beside host": {strings.Replace(good, "resource_pool: r", "cores: 1, hosts: [{name: h}]", 1), "not for both"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{File: tc.text, "secret": "p\n", "open": "p\n"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(filepath.Join(dir, "open"), 0o644); err != nil {
				t.Fatal(err)
			}
			err := Check(reconfigure.Access{Dir: dir, Cloud: "site"})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v", err)
			}
			table, err := readTable(dir, "site")
			if tc.want == "" && (err != nil || table.Password != "p") {
				t.Errorf("the password is %q, error %v", table.Password, err)
			}
		})
	}
}

func TestNodesAreShardsOfHostsOnlyWhereThereAreHosts(t *testing.T) {
	dir := t.TempDir()
	c := reconfigure.Cluster{
		Cloud: "site", Control: reconfigure.Control{Name: "ctl"},
		Groups: []reconfigure.NodeGroup{{Prefix: "n", Width: 1, Max: 1}},
	}
	const entry = `clouds: {site: {server: s, user: u, password: p, datacenter: d, datastore: p, `
	for where, want := range map[string]map[string]string{
		`resource_pool: r`:              nil,
		`hosts: [{name: a}, {name: b}]`: {"ctl": "", "n1": "host-1"},
	} {
		if err := os.WriteFile(filepath.Join(dir, File), []byte(entry+where+"}}"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Provider().Places(dir, c)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v\n%s", where, err, diff)
		}
	}
}

func TestStateSaysWhatAVirtualMachineIsMadeOf(t *testing.T) {
	got := made(map[string]any{
		"extra_config": map[string]any{
			groupKey: "g", imageKey: "i", flavorKey: "f", networkKey: "n", clusterKey: "c",
		},
		"default_ip_address": "fe80::1", "guest_ip_addresses": []any{"fe80::1", "10.0.0.7"},
	})
	want := reconfigure.Made{
		Spec:    reconfigure.Spec{Group: "g", ImageID: "i", FlavorID: "f", NetworkID: "n"},
		Address: "10.0.0.7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := made(map[string]any{"default_ip_address": "10.0.0.8"}); got != (reconfigure.Made{Address: "10.0.0.8"}) {
		t.Errorf("of another's: %+v", got)
	}
}

func TestAddressIsThatOfACard(t *testing.T) {
	card := func(key int32, addresses ...string) types.GuestNicInfo {
		var all []types.NetIpConfigInfoIpAddress
		for _, one := range addresses {
			all = append(all, types.NetIpConfigInfoIpAddress{IpAddress: one})
		}
		return types.GuestNicInfo{DeviceConfigId: key, IpConfig: &types.NetIpConfigInfo{IpAddress: all}}
	}
	with := func(cards ...types.GuestNicInfo) types.GuestInfo { return types.GuestInfo{Net: cards} }
	for name, tc := range map[string]struct {
		guest types.GuestInfo
		want  string
	}{
		"nothing":         {types.GuestInfo{}, ""},
		"old tools":       {types.GuestInfo{IpAddress: "10.0.0.1"}, "10.0.0.1"},
		"a bridge inside": {with(card(-1, "172.17.0.1"), card(4000, "10.0.0.1")), "10.0.0.1"},
		"two cards":       {with(card(4001, "10.1.0.1"), card(4000, "10.0.0.1")), "10.0.0.1"},
		"IPv6 first":      {with(card(4000, "fe80::1", "10.0.0.1")), "10.0.0.1"},
		"no DHCP":         {with(card(4000, "169.254.1.1")), ""},
		"no address yet":  {with(types.GuestNicInfo{DeviceConfigId: 4000}), ""},
		"IPv6 alone":      {types.GuestInfo{IpAddress: "fe80::1"}, ""},
	} {
		if got := address(tc.guest); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestTemplateNeedsOneDiskOnASCSIController(t *testing.T) {
	yes := true
	bus := func(c types.BaseVirtualDevice) types.BaseVirtualDevice { c.GetVirtualDevice().Key = 1000; return c }
	disk := func(controller int32, thin, eager *bool) *types.VirtualDisk {
		d := &types.VirtualDisk{CapacityInBytes: 10<<30 + 1}
		d.ControllerKey = controller
		d.Backing = &types.VirtualDiskFlatVer2BackingInfo{ThinProvisioned: thin, EagerlyScrub: eager}
		return d
	}
	lsi, nvme := bus(&types.VirtualLsiLogicController{}), bus(&types.VirtualNVMEController{})
	const guest = "debian12_64Guest"
	type devices = []types.BaseVirtualDevice
	for name, tc := range map[string]struct {
		devices
		want, fail string
	}{
		"thin":         {devices{lsi, disk(1000, &yes, nil)}, "u," + guest + ",efi,lsilogic,11,thin", ""},
		"lazy":         {devices{lsi, disk(1000, nil, nil)}, "u," + guest + ",efi,lsilogic,11,lazy", ""},
		"eager":        {devices{lsi, disk(1000, nil, &yes)}, "u," + guest + ",efi,lsilogic,11,eager", ""},
		"no disk":      {devices{lsi}, "", "it has 0 disks"},
		"two disks":    {devices{lsi, disk(1000, nil, nil), disk(1000, nil, nil)}, "", "it has 2 disks"},
		"another disk": {devices{lsi, disk(15000, nil, nil)}, "", "no SCSI controller"},
		"NVMe":         {devices{nvme, disk(1000, nil, nil)}, "", "no SCSI controller"},
	} {
		config := types.VirtualMachineConfigInfo{Uuid: "u", GuestId: guest, Firmware: "efi"}
		config.Hardware.Device = tc.devices
		got, err := templateOf(config)
		if tc.fail == "" && (err != nil || got.id() != tc.want) {
			t.Errorf("%s: %q, error %v", name, got.id(), err)
		}
		if tc.fail != "" && (err == nil || !strings.Contains(err.Error(), tc.fail)) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestErrorsOfTheProviderHaveClasses(t *testing.T) {
	for words, want := range map[string]reconfigure.Class{
		"error cloning virtual machine: ServerFaultCode: Insufficient resources.":                reconfigure.ClassCapacity,
		"error cloning virtual machine: Insufficient disk space on datastore 'fast'.":            reconfigure.ClassCapacity,
		"timeout waiting for an available IP address":                                            reconfigure.ClassBoot,
		`cannot locate virtual machine or template with UUID "1": virtual machine not found`:     reconfigure.ClassMissing,
		"error fetching datacenter: datacenter 'DC9' not found":                                  reconfigure.ClassMissing,
		"error setting up new vSphere SOAP client: Post https://h/sdk: dial tcp 10.0.0.1:443: i": reconfigure.ClassCloud,
		"error cloning virtual machine: The name 'eiffel-node1' already exists.":                 reconfigure.ClassOther,
	} {
		if got := providerClass(words); got != want {
			t.Errorf("%q is %s, want %s", words, got, want)
		}
	}
}

// TestTheDocumentedEntryIsRead reads the entry in docs/guides/clouds.md, with the resource pool and then with hosts.
func TestTheDocumentedEntryIsRead(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guides", "clouds.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## vSphere\n")
	blocks := regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(section, 2)
	if len(blocks) != 2 {
		t.Fatalf("the section has %q", blocks)
	}
	limits := regexp.MustCompile(`(?m)^ +(resource_pool|cores):.*\n`)
	for entry, hosts := range map[string]int{
		blocks[0]: 0, limits.ReplaceAllString(blocks[0], "") + blocks[1]: 2,
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{File: entry, "vsphere.password": "p"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		table, err := readTable(dir, "site")
		if err != nil || len(table.Hosts) != hosts || table.Flavors["small"].Memory != 4096 || table.Folder != "slurm" {
			t.Errorf("%s is %+v, error %v", entry, table, err)
		}
	}
}
