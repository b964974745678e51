package site_test

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// BenchmarkResume configures machines that have just booted from a prepared image, in a cluster that exists already. It
// reports the time of a run, the CPU seconds of the control host per machine (except those of ssh processes that still
// run), and the number of Ansible's tasks per machine.
func BenchmarkResume(b *testing.B) {
	m := newMachines(b, 13)
	m.size(2, 20)
	for number, name := range []string{"ctl", "node01", "node02"} {
		m.boot(name, byte(10+number))
	}
	m.configure("ctl", "node01", "node02")
	small := maps.Clone(m.instances)
	for _, size := range []struct{ count, others int }{{1, 0}, {8, 0}, {1, 4000}} {
		count := size.count
		b.Run(fmt.Sprintf("%d of %d", count, len(small)+max(count, size.others)), func(b *testing.B) {
			m.instances = maps.Clone(small)
			m.others(size.others)
			b.Cleanup(func() { m.others(0) })
			var wall, cpu, tasks float64
			for b.Loop() {
				var names []string
				for number := range count {
					name := fmt.Sprintf("node%02d", 3+number)
					_ = m.host.Destroy(b.Context(), name) // it does not exist the first time
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

// others declares a number of nodes with addresses but without machines.
func (m *machines) others(count int) {
	m.Helper()
	m.cluster.Groups = m.cluster.Groups[:1]
	if count == 0 {
		return
	}
	group := reconfigure.NodeGroup{Name: "others", Prefix: "other", Width: 4, Max: count}
	m.cluster.Groups = append(m.cluster.Groups, group)
	for number, node := range group.Nodes().Names() {
		address := fmt.Sprintf("10.99.%d.%d", number/250, number%250+1)
		m.instances[node] = reconfigure.Instance{Node: node, ID: node, Address: address}
	}
}

// spent returns the CPU time of all child processes that have ended.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// counted returns the number of tasks of the nodes in Ansible's recap.
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
