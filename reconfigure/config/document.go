package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document parses the file's YAML. The parser stops at the first syntax error, which hides all other problems.
func document(r *report, data []byte) (*yaml.Node, bool) {
	for i, line := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(line) {
			r.add(place{line: i + 1}, "this is not UTF-8, which Terraform requires")
			return nil, false
		}
	}
	root, err := decode(data)
	if err != nil {
		message := regexp.MustCompile(`^yaml: (line \d+: )?`).ReplaceAllString(err.Error(), "")
		r.add(place{line: brokenLine(data)}, "this is not YAML: %s", message)
		return nil, false
	}
	if root == nil || root.ShortTag() == "!!null" {
		r.add(place{line: 1}, "the file is empty")
		return nil, false
	}
	return root, true
}

// decode reads the document of the file; nil if there is none.
func decode(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
		return first.Content[0], nil
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("a second document begins, but Ansible reads only one")
}

// brokenLine returns the line of a syntax error: the line after the longest beginning that is valid. The errors of the
// parser have the line where the surrounding block begins, or none. The search parses once for each line that it
// removes from the end, so it stops after patience lines.
func brokenLine(data []byte) int {
	const patience = 500
	good := data
	for range patience {
		good = good[:bytes.LastIndexByte(bytes.TrimSuffix(good, []byte("\n")), '\n')+1]
		if len(good) == 0 {
			break
		}
		if _, err := decode(good); err == nil {
			break
		}
	}
	return 1 + bytes.Count(good, []byte("\n"))
}
