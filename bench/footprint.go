package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// starts is how often a start is measured.
const starts = 21

// mib is a mebibyte.
const mib = 1 << 20

// footprint measures the size of the program, its start, and its memory.
func (b *bench) footprint(ctx context.Context) (report, error) {
	r := report{about: "The program itself. Memory is the largest resident set (getrusage(2), ru_maxrss). " +
		"The start is the median of some."}
	largest := slices.Max(b.sizes.clusters)
	s, err := b.site(ctx, largest)
	if err != nil {
		return r, err
	}
	info, err := os.Stat(s.file("bin", "reconfigure"))
	if err != nil {
		return r, err
	}
	var took []time.Duration
	for range starts {
		begun := time.Now()
		if err := s.do(ctx, "version"); err != nil {
			return r, err
		}
		took = append(took, time.Since(begun))
	}
	version, err := s.peak(ctx, "version")
	if err != nil {
		return r, err
	}
	status, err := s.peak(ctx, "status")
	if err != nil {
		return r, err
	}
	start := median(took)
	r.rows = []row{
		memoryRow("size of the program", float64(info.Size())/mib),
		{
			what: "start of `reconfigure version`", measured: fmt.Sprintf("%.0f ms", float64(start.Microseconds())/1000),
			value: float64(start.Microseconds()) / 1000,
		},
		memoryRow("memory of `reconfigure version`", version),
		memoryRow(fmt.Sprintf("memory of `reconfigure status`, %d nodes", largest), status),
	}
	return r, nil
}

// measuring runs a command, and prints the largest resident set of it in KiB. A child of this process would not do: the
// kernel counts the memory of the parent, as it was before execve(2), for the child.
const measuring = `import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)`

// peak returns the largest resident set of a call, in MiB.
func (s *site) peak(ctx context.Context, args ...string) (float64, error) {
	call := s.call(ctx, args...)
	cmd := exec.CommandContext(ctx, "python3", append([]string{"-c", measuring}, call.Args...)...)
	cmd.Dir, cmd.Env = call.Dir, call.Env
	out, err := cmd.Output()
	if err != nil {
		return 0, s.failed(fmt.Sprint(args), out, err)
	}
	kib, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	return kib / 1024, err
}

// peakOf returns the largest resident set of a process that runs, in MiB.
func peakOf(pid int) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmHWM", pid)
}

// memoryRow is a row for a memory, or a file, of some MiB.
func memoryRow(what string, value float64) row {
	return row{what: what, measured: fmt.Sprintf("%.0f MiB", value), value: value}
}
