package storm

import (
	"flag"
	"os"
	"testing"
)

// storms is the default number of storms. A fault that needs a kill at one moment shows in one of some hundreds.
const storms = "300"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "rapid.checks" })
	if !chosen {
		if err := flag.Set("rapid.checks", storms); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
