package nodeset_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func ExampleParse() {
	s, err := nodeset.Parse("r[1-2]n[08-10]", "login")
	if err != nil {
		fmt.Println(err)
		return
	}
	for name := range s.All() {
		fmt.Println(name)
	}
	// Output:
	// login
	// r1n08
	// r1n09
	// r1n10
	// r2n08
	// r2n09
	// r2n10
}

func ExampleParseError() {
	_, err := nodeset.Parse("node[01-04,,07]")
	fmt.Println(err)
	var e *nodeset.ParseError
	if errors.As(err, &e) {
		fmt.Println(e.Hostlist[:e.Offset], "…")
	}
	// Output:
	// hostlist "node[01-04,,07]", offset 11: found ',' in brackets instead of a number
	// node[01-04, …
}

func ExampleNodeSet_Difference() {
	asked, there := nodeset.Of("node01", "node02", "node03"), nodeset.Of("node02")
	fmt.Println(asked.Difference(there))
	// Output: node[01,03]
}

func ExampleNodeSet_String() {
	fmt.Println(nodeset.Of("node10", "node9", "node08", "node09", "login", "node9"))
	// Output: login,node[9,08-10]
}

func ExampleNodeSet_MarshalText() {
	text, err := json.Marshal(map[string]nodeset.NodeSet{"nodes": nodeset.Of("node01", "node02")})
	fmt.Println(string(text), err)
	// Output: {"nodes":"node[01-02]"} <nil>
}

func ExampleValidName() {
	fmt.Println(nodeset.ValidName("node01"))
	fmt.Println(nodeset.ValidName("node_01"))
	// Output:
	// <nil>
	// node name "node_01" has '_', which is not a letter from a to z, a digit or a hyphen
}
