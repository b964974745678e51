package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// WriteYAML writes a value with the keys of its JSON, in the same order, so that only the JSON tags name the fields. The
// value is a YAML document of its own.
func WriteYAML(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	tokens := json.NewDecoder(bytes.NewReader(text))
	tokens.UseNumber() // an id must not become a floating-point number
	node, err := yamlNode(tokens)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, "---\n"); err != nil { // commands may print several values
		return err
	}
	out := yaml.NewEncoder(w)
	out.SetIndent(2)
	if err := out.Encode(node); err != nil {
		return err
	}
	return out.Close()
}

// yamlNode reads the next value of a JSON text.
func yamlNode(tokens *json.Decoder) (*yaml.Node, error) {
	token, err := tokens.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: map[json.Delim]yaml.Kind{'{': yaml.MappingNode, '[': yaml.SequenceNode}[t]}
		for tokens.More() {
			part, err := yamlNode(tokens)
			if err != nil {
				return nil, err
			}
			if isKey := node.Kind == yaml.MappingNode && len(node.Content)%2 == 0; isKey {
				part.Style = 0 // the keys need no quotes
			}
			node.Content = append(node.Content, part)
		}
		_, err := tokens.Token() // the closing token
		return node, err
	case string:
		// Quoted, so that no version of YAML reads a node named "no" as a boolean, or an image "1:30" as a number.
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: t}, nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(token)}, nil // a number or a boolean
}
