package libvirt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestTableSaysWhatIsWrong(t *testing.T) {
	const good = `clouds: {lab: {pool: p, hosts: [{uri: "qemu:///system"}], ` +
		`flavors: {small: {cores: 1, memory: 1, disk: 1}}}}`
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":          {good, ""},
		"over SSH":         {strings.Replace(good, "qemu:///", "qemu+ssh://root@h:23/", 1), ""},
		"no such cloud":    {strings.Replace(good, "lab", "other", 1), `no cloud "lab"`},
		"no pool":          {strings.Replace(good, "pool: p, ", "", 1), "pool is missing"},
		"no hosts":         {strings.Replace(good, `[{uri: "qemu:///system"}]`, "[]", 1), "hosts is empty"},
		"another driver":   {strings.Replace(good, "qemu:", "xen:", 1), "neither qemu:///system nor"},
		"a host's name":    {strings.Replace(good, "qemu:///", "qemu://h/", 1), "needs qemu+ssh"},
		"a type":           {strings.Replace(good, "pool: p", "pool: p, type: lxc", 1), "neither kvm nor qemu"},
		"an empty flavor":  {strings.Replace(good, "cores: 1", "cores: 0", 1), "flavor small"},
		"a negative limit": {strings.Replace(good, `system"}`, `system", cores: -1}`, 1), "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, File), []byte(tc.text), 0o644); err != nil {
				t.Fatal(err)
			}
			err := Check(reconfigure.Access{Dir: dir, Cloud: "lab"})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestStateSaysWhatADomainIsMadeOf(t *testing.T) {
	got := made(map[string]any{
		"description": `{"eiffel_group":"g","image":"i","flavor":"f","network":"n"}`,
		"network_interface": []any{map[string]any{
			"addresses": []any{"fe80::1", "10.0.0.7"},
		}},
	})
	want := reconfigure.Made{
		Spec:    reconfigure.Spec{Group: "g", ImageID: "i", FlavorID: "f", NetworkID: "n"},
		Address: "10.0.0.7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := made(map[string]any{"description": "by hand"}); got != (reconfigure.Made{}) {
		t.Errorf("of another's: %+v", got)
	}
}

func TestErrorsOfTheProviderHaveClasses(t *testing.T) {
	for words, want := range map[string]reconfigure.Class{
		"error creating libvirt domain: cannot set up guest memory: Cannot allocate memory": reconfigure.ClassCapacity,
		"couldn't retrieve IP address of domain id: 1. Please check following":              reconfigure.ClassBoot,
		"Storage volume not found: no storage vol with matching name 'x'":                   reconfigure.ClassMissing,
		"failed to connect: dial unix /run/libvirt/libvirt-sock: no such file":              reconfigure.ClassCloud,
		"anything else": reconfigure.ClassOther,
	} {
		if got := providerClass(words); got != want {
			t.Errorf("%q is %s, want %s", words, got, want)
		}
	}
}
