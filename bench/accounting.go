package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/lab/procs"
)

// accounting measures the CPU time of every process on the machine by its program. The kernel writes a record for each
// process that ends (acct(5)); the others are looked up at the beginning and at the end.
type accounting struct {
	file   string
	busy   time.Duration
	before map[int]time.Duration // CPU by process
}

// consumed is what was used between the beginning and the end.
type consumed struct {
	busy     time.Duration // of all cores
	programs map[string]time.Duration
}

// startAccounting begins. stop MUST be called.
func startAccounting(file string) (*accounting, error) {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, err
	}
	busy, err := cpuBusy()
	if err != nil {
		return nil, err
	}
	a := &accounting{file: file, busy: busy, before: map[int]time.Duration{}}
	for pid, s := range everyStatus() {
		a.before[pid] = s.own
	}
	if err := unix.Acct(file); err != nil {
		return nil, fmt.Errorf("account for processes: %w", err)
	}
	return a, nil
}

func (a *accounting) stop() (consumed, error) {
	if _, _, errno := unix.Syscall(unix.SYS_ACCT, 0, 0, 0); errno != 0 {
		return consumed{}, fmt.Errorf("end accounting for processes: %w", errno)
	}
	busy, err := cpuBusy()
	c := consumed{busy: busy - a.busy, programs: map[string]time.Duration{}}
	for pid, s := range everyStatus() {
		c.programs[s.name] += s.own - a.before[pid]
	}
	text, read := os.ReadFile(a.file)
	ended, parsed := readAccounting(text)
	for _, r := range ended {
		c.programs[r.program] += r.cpu - a.before[r.pid]
	}
	return c, errors.Join(err, read, parsed, os.Remove(a.file))
}

// everyStatus returns the status of each process and of each thread of the kernel.
func everyStatus() map[int]status {
	all := map[int]status{}
	pids, _ := procs.IDs() // without /proc, the table would be empty
	for _, pid := range pids {
		if s, ok := statusOf(pid); ok {
			all[pid] = s
		}
	}
	return all
}

// record is the kernel's record of a process that has ended.
type record struct {
	program string
	pid     int
	cpu     time.Duration
}

// readAccounting reads records of version 3, struct acct_v3 of linux/acct.h.
func readAccounting(text []byte) (all []record, err error) {
	const size, version = 64, 3
	for ; len(text) >= size; text = text[size:] {
		one := text[:size]
		if one[1]&0xf != version {
			return all, fmt.Errorf("a record of accounting has version %d, not %d", one[1]&0xf, version)
		}
		used := compressed(binary.NativeEndian.Uint16(one[32:])) + compressed(binary.NativeEndian.Uint16(one[34:]))
		name, _, _ := bytes.Cut(one[48:], []byte{0})
		all = append(all, record{
			program: string(name), pid: int(binary.NativeEndian.Uint32(one[16:])),
			cpu: time.Duration(used) * time.Second / ticks,
		})
	}
	return all, nil
}

// compressed reads comp_t: a fraction of 13 bits and an exponent of 3 bits to the base 8.
func compressed(c uint16) int64 { return int64(c&0x1fff) << (3 * (c >> 13)) }

// cpuBusy returns how long all cores together have been busy since the boot (proc_stat(5)).
func cpuBusy() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var user, nice, system, idle, wait, irq, softirq int64
	_, err = fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &softirq)
	if err != nil {
		return 0, fmt.Errorf("read /proc/stat: %w", err)
	}
	return time.Duration(user+nice+system+irq+softirq) * time.Second / ticks, nil
}
