package slurmconf

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// threads is the output of slurmd 22.05 on a node with four cores of two threads.
const threads = "NodeName=node01 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=8000"

func TestCompare(t *testing.T) {
	const (
		layout  = "CPUs=8 Sockets=1 CoresPerSocket=4 ThreadsPerCore=2"
		fitting = "CPUs: 8, Sockets: 1, CoresPerSocket: 4, ThreadsPerCore: 2"
	)
	flavor := &reconfigure.Hardware{CPUs: 8, RealMemory: 7500}
	for name, test := range map[string]struct {
		settings map[string]string
		flavor   *reconfigure.Hardware
		printed  string
		want     Mismatch
	}{
		"as declared": {settings: map[string]string{"cpus": "8", "sockets": "1", "corespersocket": "4",
			"threadspercore": "2", "realmemory": "7500"}},
		"in other words": {settings: map[string]string{"boards": "1", "socketsperboard": "1", "corespersocket": "4",
			"threadspercore": "2", "realmemory": "8000", "weight": "5"}},
		"a CPU is a core": {settings: map[string]string{"cpus": "4", "sockets": "1", "corespersocket": "4",
			"threadspercore": "2"}},
		"CPUs that jobs do not get": {settings: map[string]string{"cpus": "8", "corespersocket": "4",
			"threadspercore": "2", "corespeccount": "1"}},
		"nothing is known": {},
		"the flavor": {flavor: flavor, printed: "CPUs=8 Boards=1 SocketsPerBoard=8 CoresPerSocket=1 ThreadsPerCore=1 " +
			"RealMemory=7600"},

		"the flavor has no threads": {flavor: flavor, want: Mismatch{Change: fitting, Printed: layout,
			Declared: "CPUs=8 Sockets=8 CoresPerSocket=1 ThreadsPerCore=1"}},
		"CPUs alone": {settings: map[string]string{"procs": "8"}, want: Mismatch{Change: fitting, Printed: layout,
			Declared: "CPUs=8 Sockets=8 CoresPerSocket=1 ThreadsPerCore=1"}},
		"fewer CPUs are declared": {settings: map[string]string{"cpus": "2"}, flavor: flavor,
			want: Mismatch{Change: fitting, Printed: layout,
				Declared: "CPUs=2 Sockets=2 CoresPerSocket=1 ThreadsPerCore=1"}},
		"more CPUs are declared": {settings: map[string]string{"cpus": "16", "corespersocket": "4", "threadspercore": "2"},
			want: Mismatch{Change: fitting, Printed: layout, Less: true,
				Declared: "CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"}},
		// Slurm takes cores for CPUs, but the node has fewer cores.
		"more cores are declared": {settings: map[string]string{"cpus": "8", "sockets": "2", "corespersocket": "4",
			"threadspercore": "2"}, want: Mismatch{Change: fitting, Printed: layout, Less: true,
			Declared: "CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"}},
		"other sockets": {settings: map[string]string{"cpus": "8", "sockets": "4", "corespersocket": "1",
			"threadspercore": "2"}, want: Mismatch{Change: fitting, Printed: layout, Layout: true,
			Declared: "CPUs=8 Sockets=4 CoresPerSocket=1 ThreadsPerCore=2"}},
		"boards": {settings: map[string]string{"cpus": "8"},
			printed: "CPUs=8 Boards=2 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=1",
			want: Mismatch{Layout: true, Declared: "CPUs=8 Sockets=8 CoresPerSocket=1 ThreadsPerCore=1",
				Printed: "Boards=2 CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=1",
				Change:  "CPUs: 8, Boards: 2, SocketsPerBoard: 1, CoresPerSocket: 4, ThreadsPerCore: 1"}},

		"a quarter of the memory is not declared": {settings: map[string]string{"realmemory": "6000"}},
		"half of the memory is not declared": {settings: map[string]string{"realmemory": "4000"}, want: Mismatch{
			Declared: "RealMemory=4000", Printed: "RealMemory=8000", Change: "RealMemory: 7840"}},
		"more memory is declared": {settings: map[string]string{"realmemory": "8001"}, want: Mismatch{Less: true,
			Declared: "RealMemory=8001", Printed: "RealMemory=8000", Change: "RealMemory: 7840"}},
		"both": {settings: map[string]string{"cpus": "2", "realmemory": "8001"}, want: Mismatch{Less: true,
			Declared: "CPUs=2 Sockets=2 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=8001",
			Printed:  layout + " RealMemory=8000", Change: fitting + ", RealMemory: 7840"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.printed == "" {
				test.printed = threads
			}
			got, err := Compare(test.settings, test.flavor, test.printed)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, line := range []string{"", "slurmd: error: no hwloc", "NodeName=a CPUs=4", "NodeName=a CPUs=-1 RealMemory=7"} {
		if got, err := Compare(nil, nil, line); err == nil {
			t.Errorf("%q: %v", line, got)
		}
	}
}
