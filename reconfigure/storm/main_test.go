package storm

import (
	"flag"
	"os"
	"testing"
)

// TestMain plays the same storms in each run, so that a failure is that of a change. `make storms` plays others.
func TestMain(m *testing.M) {
	flag.Parse()
	set := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": storms, "rapid.seed": "1"} {
		if set[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
