package journal

import (
	"fmt"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func spec(group string) reconfigure.Spec {
	return reconfigure.Spec{Group: group, ImageID: "image", FlavorID: "flavor", NetworkID: "network"}
}

// BenchmarkKeepNodes measures how long it takes in a large cluster to write the map of nodes, before each run of
// Terraform.
func BenchmarkKeepNodes(b *testing.B) {
	both(b, func(b *testing.B, place places) {
		j, nodes := open(b, place(b)), map[string]reconfigure.Spec{}
		for i := range 4000 {
			nodes[fmt.Sprint("node", i)] = spec("standard")
		}
		for i := 0; b.Loop(); i++ {
			nodes["node1"] = spec(fmt.Sprint(i))
			noError(b, j.KeepNodes(b.Context(), reconfigure.DefaultShard, nodes))
		}
	})
}

// BenchmarkKeepHostKeys measures how long it takes in a large cluster to write the host key of one instance.
func BenchmarkKeepHostKeys(b *testing.B) {
	both(b, func(b *testing.B, place places) {
		const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIpIBPyqOgkM2XD5O5rIfkRy/kyCQjwPK9r2xHg0yCkC"
		j, many := open(b, place(b)), map[string][]string{}
		for i := range 4000 {
			many[fmt.Sprint("192.0.2.", i)] = []string{key}
		}
		noError(b, j.KeepHostKeys(b.Context(), many))
		for b.Loop() {
			noError(b, j.KeepHostKeys(b.Context(), map[string][]string{"192.0.2.1": {"ssh-ed25519 AAAA"}}))
		}
	})
}
