package site_test

import (
	"fmt"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// BenchmarkResume configures machines that have just booted from a prepared image, in a cluster that is there. Beside the time it reports the CPU seconds of the
// control host a machine, without those of ssh processes that stay for other tasks, and the tasks that Ansible counts on each machine.
func BenchmarkResume(b *testing.B) {
	m := newMachines(b)
	m.size(2, 20)
	for number, name := range []string{"ctl", "node01", "node02"} {
		m.boot(name, byte(10+number))
	}
	m.configure("ctl", "node01", "node02")
	for _, count := range []int{1, 8} {
		b.Run(fmt.Sprintf("%d", count), func(b *testing.B) {
			var wall, cpu, tasks float64
			for b.Loop() {
				var names []string
				for number := range count {
					name := fmt.Sprintf("node%02d", 3+number)
					if _, there := m.instances[name]; there {
						if err := m.host.Destroy(b.Context(), name); err != nil {
							b.Fatal(err)
						}
					}
					m.boot(name, byte(30+number))
					names = append(names, name)
				}
				began, before := time.Now(), spent(b)
				failures, said := m.extend(reconfigure.Extent{Changed: nodeset.Of(names...)})
				if len(failures) > 0 {
					b.Fatalf("%v\n%s", failures, said)
				}
				wall += time.Since(began).Seconds()
				cpu += (spent(b) - before).Seconds()
				tasks += counted(b, said, nodeset.Of(names...))
			}
			runs := float64(b.N)
			b.ReportMetric(wall/runs, "s/run")
			b.ReportMetric(cpu/runs/float64(count), "cpu-s/node")
			b.ReportMetric(tasks/runs/float64(count), "tasks/node")
		})
	}
}

// spent is the CPU time of all processes that were started here and have ended.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// counted is the tasks that Ansible's recap has for the nodes.
func counted(b *testing.B, said string, nodes nodeset.NodeSet) (tasks float64) {
	b.Helper()
	for _, host := range regexp.MustCompile(`(?m)^(\S+)\s+: ok=(\d+)`).FindAllStringSubmatch(said, -1) {
		n, err := strconv.Atoi(host[2])
		if err != nil {
			b.Fatal(err)
		}
		if nodes.Contains(host[1]) {
			tasks += float64(n)
		}
	}
	return tasks
}
