package config

import (
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// pyyaml reads a JSON list of YAML documents, and writes for each whether Ansible's YAML parser reads its value as
// text, and how Python prints it.
const pyyaml = `
import json, sys, yaml
def read(document):
    try:
        value = yaml.safe_load(document)["key"]
        return {"Text": isinstance(value, str), "Printed": str(value)}
    except Exception as error:
        return {"Text": False, "Printed": "error: %s" % error}
json.dump([read(document) for document in json.load(sys.stdin)], sys.stdout)
`

// Ansible must read each text and number as this package does. Otherwise this package would check other values than
// Ansible uses.
func TestAnsibleReadsWhatWeRead(t *testing.T) {
	documents := scalars(5000)
	input, err := json.Marshal(documents)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "python3", "-c", pyyaml)
	command.Stdin = strings.NewReader(string(input))
	output, err := command.Output()
	if err != nil {
		t.Fatalf("this test needs python3 with PyYAML, a dependency of ansible-core: %v", err)
	}
	var theirs []struct {
		Text    bool
		Printed string
	}
	if err := json.Unmarshal(output, &theirs); err != nil || len(theirs) != len(documents) {
		t.Fatalf("%d answers to %d documents: %v", len(theirs), len(documents), err)
	}
	texts, numbers := 0, 0
	for i, document := range documents {
		var r report
		root, ok := onlyValue(&r, document)
		if !ok {
			continue
		}
		if s, ok := r.text("key", root); ok {
			texts++
			if !theirs[i].Text || theirs[i].Printed != s {
				t.Errorf("%q is the text %q here, and %s in Ansible", document, s, theirs[i].Printed)
			}
		}
		tag := root.ShortTag()
		if word := r.word("key", root); word.ok && (tag == "!!int" || tag == "!!float") {
			numbers++
			if theirs[i].Printed != word.is {
				t.Errorf("%q is the number %s here, and %s in Ansible", document, word.is, theirs[i].Printed)
			}
		}
	}
	if texts < 500 || numbers < 100 {
		t.Errorf("only %d texts and %d numbers were compared", texts, numbers)
	}
}

// onlyValue returns the value of a document with one key.
func onlyValue(r *report, text string) (*yaml.Node, bool) {
	root, ok := document(r, []byte(text))
	if !ok || root.Kind != yaml.MappingNode || len(root.Content) != 2 || root.Content[1].Kind != yaml.ScalarNode {
		return nil, false
	}
	return root.Content[1], true
}

// scalars returns documents with one unquoted value each, made of pieces that the versions of YAML read differently.
// They are the same in each run.
func scalars(n int) []string {
	pieces := []string{
		"0", "1", "7", "59", "60", "24", "2024", "_", ":", ":", ".", "-", "+", "e", "E3", "0x", "0o", "0b", "inf",
		".nan",
		"yes", "Yes", "NO", "on", "Off", "yEs", "true", "True", "null", "~", "=", "y", "T", "-01", "00",
	}
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]string, n)
	for i := range all {
		value := ""
		for range 1 + random.IntN(5) {
			value += pieces[random.IntN(len(pieces))]
		}
		all[i] = "key: " + value + "\n"
	}
	return all
}
