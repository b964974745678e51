package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one ratio.
type row struct {
	what     string
	measured string
	beside   string // the time that the first is divided by; empty: none
	ratio    string // empty: none
	goal     string // empty: none
	met      bool
	value    float64 // in the unit of the row's budget; zero: the row has none
}

// report is the result of a benchmark.
type report struct {
	about   string // what was measured, in a sentence or two
	rows    []row
	details [][]string // an additional table; the first row has the titles
	failure string     // why the result is incomplete
}

// page has the results of a run.
type page struct {
	when    time.Time
	took    time.Duration
	machine string
	names   []string
	reports []report
}

func newPage(when time.Time) *page {
	return &page{
		when: when,
		machine: fmt.Sprintf(
			"%d cores (%s), %d GiB of memory, load %s before the run", runtime.NumCPU(), processor(), memory(), load(),
		),
	}
}

func (p *page) add(name string, r report) {
	for i, one := range r.rows {
		r.rows[i] = budgeted(name, one)
	}
	p.names, p.reports = append(p.names, name), append(p.reports, r)
}

var titles = []string{"benchmark", "what", "measured", "beside it", "ratio", "goal", "met"}

func (r row) columns(name string) []string {
	met := ""
	if r.goal != "" {
		met = "no"
		if r.met {
			met = "yes"
		}
	}
	return []string{name, r.what, r.measured, r.beside, r.ratio, r.goal, met}
}

// table returns the ratios of all benchmarks.
func (p *page) table() [][]string {
	all := [][]string{titles}
	for i, r := range p.reports {
		for _, one := range r.rows {
			all = append(all, one.columns(p.names[i]))
		}
		if r.failure != "" {
			all = append(all, []string{p.names[i], "not measured", "", "", "", "", "no"})
		}
	}
	return all
}

// text returns the page for a terminal.
func (p *page) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, %s\n\n", p.when.UTC().Format(time.RFC3339), p.machine)
	b.WriteString(aligned(p.table()))
	for i, r := range p.reports {
		if len(r.details) > 0 {
			fmt.Fprintf(&b, "\n%s: %s\n\n%s", p.names[i], r.about, aligned(r.details))
		}
	}
	return b.String()
}

func aligned(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush() // writing to memory does not fail
	return b.String()
}

// markdown returns the page for docs/.
func (p *page) markdown(d document) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# %s

<!-- Written by `+"`%[2]s`"+`. Do not edit: run it again. -->

`+"`%[2]s`"+` has written this page on %[3]s, on a machine with %[4]s, in %.0[5]f minutes.
Every number is from that run. Times differ from machine to machine; the ratios compare two times of the same run.
Everything runs on the lab (lab/README.md): Terraform, its OpenStack provider with all of its fixed waits, Ansible,
SSH and Slurm are the real ones, the cloud is not.

`, d.title, d.command, p.when.UTC().Format("2006-01-02 15:04 UTC"), p.machine, p.took.Minutes())
	b.WriteString(pipes(p.table()))
	for i, r := range p.reports {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", p.names[i], r.about)
		if r.failure != "" {
			fmt.Fprintf(&b, "\nIncomplete: `%s`\n", strings.ReplaceAll(r.failure, "`", "'"))
		}
		if len(r.details) > 0 {
			b.WriteString("\n" + pipes(r.details))
		}
	}
	return b.String()
}

func pipes(rows [][]string) string {
	var b strings.Builder
	for i, r := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(r)) + "|\n")
		}
	}
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// times returns the ratio of two times.
func times(a, b time.Duration) float64 { return float64(a) / float64(b) }

func ratio(r float64) string { return fmt.Sprintf("%.2f", r) }

// processor returns the model of the machine's processor.
func processor() string {
	text, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer text.Close()
	for lines := bufio.NewScanner(text); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// memory returns the machine's memory in GiB.
func memory() int {
	text, _ := os.ReadFile("/proc/meminfo") // without it the page says 0
	var kib int
	_, _ = fmt.Sscanf(string(text), "MemTotal: %d kB", &kib)
	return (kib + 1<<19) >> 20
}

// load returns the load average of the last minute.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
