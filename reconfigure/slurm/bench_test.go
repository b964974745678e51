package slurm

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// BenchmarkStatesOf4000Nodes reads an answer of recorded nodes, many times each.
func BenchmarkStatesOf4000Nodes(b *testing.B) {
	text, err := os.ReadFile("testdata/scontrol-25.11.json")
	if err != nil {
		b.Fatal(err)
	}
	var document struct {
		Nodes []map[string]any `json:"nodes"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		b.Fatal(err)
	}
	var nodes []map[string]any
	for i := range 4000 {
		node := map[string]any{}
		for key, value := range document.Nodes[i%len(document.Nodes)] {
			node[key] = value
		}
		node["name"], node["comment"] = fmt.Sprintf("node%04d", i), fmt.Sprintf("%01000d", i)
		nodes = append(nodes, node)
	}
	list, err := json.MarshalIndent(map[string]any{"nodes": nodes, "errors": []any{}}, "", " ")
	if err != nil {
		b.Fatal(err)
	}
	answer := append([]byte("\n-- "+byScontrol+"\n"), list...)
	answer = append(answer, "\n\n-- squeue\nnode[0001-0010]\n\n-- completed\n"...)
	b.SetBytes(int64(len(answer)))
	for b.Loop() {
		l, err := parseListing(answer)
		if err != nil || len(l.nodes) != len(nodes) {
			b.Fatal(len(l.nodes), err)
		}
		for _, n := range l.nodes {
			n.state()
		}
	}
}
