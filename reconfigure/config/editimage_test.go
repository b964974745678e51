package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

// ofImage is the shipped declaration with a replaced image of the group, and two groups.
func ofImage(t *testing.T, image string) string {
	t.Helper()
	const was = "    image: debian-12\n    flavor: m1.large\n"
	if !strings.Contains(shipped(t), was) {
		t.Fatal("the declaration has another image")
	}
	more := "  - {name: wide, prefix: w, width: 2, image: debian-12, flavor: f, network: n, max_nodes: 9, min_nodes: 1}\n"
	return strings.NewReplacer(was, "    image: "+image+"\n    flavor: m1.large\n", "\npartitions:\n",
		"\n"+more+"\npartitions:\n").Replace(shipped(t))
}

func TestAnEditChangesNothingButTheImage(t *testing.T) {
	const id = "6f0c1d3e-1b2a-4c3d-9e8f-001122334455"
	for name, image := range map[string]string{
		"as it is shipped": `debian-12`, "double quotes": `"debian-12"`, "single quotes": `'debian-12'`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := directory(t, ofImage(t, image+" # debian-12"))
			changes := []config.Change{
				config.Image{Group: "standard", From: "debian-12", To: id},
				config.Image{Group: "wide", From: "debian-12", To: "debian-13"},
			}
			edit, err := config.Prepare(dir, changes...)
			if err != nil {
				t.Fatal(err)
			}
			if err := edit.Write(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := strings.Replace(ofImage(t, `"`+id+`" # debian-12`), "width: 2, image: debian-12",
				`width: 2, image: "debian-13"`, 1)
			if diff := cmp.Diff(want, says(t, dir)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			cluster, err := config.Load(dir)
			if err != nil || cluster.Groups[0].Image != id || cluster.Groups[1].Image != "debian-13" {
				t.Errorf("%+v, %v", cluster.Groups, err)
			}
		})
	}
}

func TestAnImageThatIsNotPlainIsNotEdited(t *testing.T) {
	for name, image := range map[string]string{
		"an anchor": "&i debian-12", "an alias": "*i", "a block": "|-\n      debian-12",
	} {
		t.Run(name, func(t *testing.T) {
			text := ofImage(t, image)
			if image == "*i" {
				text = strings.Replace(text, "  image: debian-12", "  image: &i debian-12", 1)
			}
			dir := directory(t, text)
			_, err := config.Prepare(dir, config.Image{Group: "standard", From: "debian-12", To: "debian-13"})
			if err == nil || !strings.Contains(err.Error(), `write "debian-13" there by hand`) {
				t.Errorf("error %v", err)
			}
		})
	}
	dir := directory(t, shipped(t))
	_, err := config.Prepare(dir, config.Image{Group: "standard", From: "debian-11", To: "debian-13"})
	if err == nil || !strings.Contains(err.Error(), "changed at the same time") {
		t.Errorf("error %v", err)
	}
}
