package security_test

import "testing"

func TestSlurmConforms(t *testing.T) { lab.ConformSlurm(t, "node06") }
