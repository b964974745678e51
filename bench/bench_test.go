package main

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheLogSaysWhenAJobGotItsNodes(t *testing.T) {
	const log = `[2026-11-24T06:47:00.337] _slurm_rpc_submit_batch_job: JobId=1 InitPrio=4294901759 usec=910
no time: sched: Allocate JobId=1 NodeList=one01
[2026-11-24T06:46:00.000] sched: Allocate JobId=1 NodeList=one01 #CPUs=1 Partition=main
[2026-11-24T06:47:01.000] sched: Allocate JobId=11 NodeList=one02 #CPUs=1 Partition=main
[2026-11-24T06:47:01.038] sched: Allocate JobId=1 NodeList=one01 #CPUs=1 Partition=main
[2026-11-24T06:48:01.000] sched/backfill: _start_job: Started JobId=12 in main on one03
`
	since := time.Date(2026, 11, 24, 6, 47, 0, 0, time.Local)
	for job, want := range map[string]time.Time{
		"1": since.Add(1038 * time.Millisecond), "11": since.Add(time.Second), "12": since.Add(61 * time.Second), "2": {},
	} {
		if got := logged(log, job, since); !got.Equal(want) {
			t.Errorf("job %s: %s, want %s", job, got, want)
		}
	}
}

func TestClockReadsDate(t *testing.T) {
	if at, err := clock("1795502843.000000001\n"); err != nil || !at.Equal(time.Unix(1795502843, 1)) {
		t.Errorf("%s, error %v", at, err)
	}
	for _, text := range []string{"", "1795502843", "1795502843.5", "x.000000001", "salloc: 1.000000001"} {
		if at, err := clock(text); err == nil {
			t.Errorf("%q is %s", text, at)
		}
	}
}

func TestABrokenBudgetFailsTheRun(t *testing.T) {
	const name, what = "status", "status of 4000 nodes"
	most := budgets[name][what].most
	for value, want := range map[float64]struct {
		met, broken bool
	}{most: {true, false}, most * 1.1: {false, false}, most * 1.3: {false, true}} {
		p := &page{}
		p.add(name, report{rows: []row{{what: what, value: value}}})
		if got := p.reports[0].rows[0]; got.met != want.met || got.goal != "<= 0.5 s" {
			t.Errorf("%g: %+v", value, got)
		}
		if errs := p.broken(false); (len(errs) > 0) != want.broken {
			t.Errorf("%g: %v", value, errs)
		}
	}
	if errs := (&page{}).broken(true); len(errs) == 0 {
		t.Error("budgets without rows are not reported")
	}
}

func TestEveryBudgetIsOfABenchmark(t *testing.T) {
	for name := range budgets {
		if _, err := choose([]string{name}); err != nil {
			t.Error(err)
		}
	}
}

func TestEveryStepHasItsFloor(t *testing.T) {
	for _, s := range steps {
		if strings.TrimSpace(floors[s]) == "" {
			t.Errorf("%s has no text", s)
		}
	}
}

func TestHistogramCountsEveryJobOnce(t *testing.T) {
	got := histogram(map[string][]time.Duration{
		atOnceLaunch: {time.Second, 4999 * time.Millisecond, 5 * time.Second}, slurmLaunch: {12 * time.Second},
	})
	want := [][]string{
		{"first line after", "launch: at_once", "launch: slurm"},
		{"0 to 5 s", "2", "0"}, {"5 to 10 s", "1", "0"}, {"10 to 15 s", "0", "1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAccountingIsRead(t *testing.T) {
	one := func(program string, pid uint32, user, system uint16) []byte {
		r := make([]byte, 64)
		r[1] = 3
		binary.NativeEndian.PutUint32(r[16:], pid)
		binary.NativeEndian.PutUint16(r[32:], user)
		binary.NativeEndian.PutUint16(r[34:], system)
		copy(r[48:], program)
		return r
	}
	// The second process used 0x1fff * 8 ticks: the exponent of its time is 1.
	text := slices.Concat(one("sh", 7, 2, 1), one("a-name-of-15-by", 1<<17, 0x2000|0x1fff, 0), []byte("cut off"))
	got, err := readAccounting(text)
	want := []record{{"sh", 7, 30 * time.Millisecond}, {"a-name-of-15-by", 1 << 17, 655280 * time.Millisecond}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(record{})); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	text[1] = 2
	if _, err := readAccounting(text); err == nil {
		t.Error("a record of another version was read")
	}
}

func TestOnlyTheBenchmarkThatIsApartWritesItsOwnPage(t *testing.T) {
	for only, want := range map[string]string{"": "performance.md", apart: "scale.md", "one": "", "one,scale": ""} {
		names := strings.FieldsFunc(only, func(r rune) bool { return r == ',' })
		var file string
		if d := documentOf(names); d != nil {
			file = d.file
		}
		if file != want {
			t.Errorf("%q writes %q, not %q", only, file, want)
		}
	}
	if all, err := choose(nil); err != nil || len(all) != len(benchmarks())-1 {
		t.Errorf("%d benchmarks, error %v", len(all), err)
	}
}
