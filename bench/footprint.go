package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
	var version, status float64
	for range starts {
		begun := time.Now()
		if version, err = s.peak(ctx, "version"); err != nil {
			return r, err
		}
		took = append(took, time.Since(begun))
	}
	if status, err = s.peak(ctx, "status"); err != nil {
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

// peak returns the largest resident set of a call, in MiB.
func (s *site) peak(ctx context.Context, args ...string) (float64, error) {
	cmd := s.call(ctx, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, s.failed(fmt.Sprint(args), out, err)
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, fmt.Errorf("no usage of %v", args)
	}
	return float64(used.Maxrss) / 1024, nil // in KiB on Linux
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
