// Package sameseed makes the property tests of a package draw the same values in each run, so that only a change can
// cause a failure. Importing it suffices. `make properties` draws other values with the flags of package rapid.
package sameseed

import (
	"flag"

	_ "pgregory.net/rapid" // defines the flag
)

func init() {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}
