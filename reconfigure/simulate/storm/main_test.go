package storm

import (
	"flag"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
)

func init() {
	if err := flag.Set("rapid.checks", storms); err != nil {
		panic(err)
	}
}
