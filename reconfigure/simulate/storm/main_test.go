package storm

import (
	"flag"
	"runtime/debug"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
)

func init() {
	debug.SetGCPercent(400) // a storm leaves much garbage and keeps little: this takes a fifth less CPU
	if err := flag.Set("rapid.checks", storms); err != nil {
		panic(err)
	}
}
