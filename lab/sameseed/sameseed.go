// Package sameseed has the property tests of a package draw the same values in each run, so that a failure is that of a
// change. Its import is enough. `make properties` draws others, by the flags of package rapid.
package sameseed

import (
	"flag"

	_ "pgregory.net/rapid" // it defines the flag
)

func init() {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}
