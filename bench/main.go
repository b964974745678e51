// Command bench measures the product. Each benchmark compares two times from the same run and machine, since a single
// time depends more on the machine than on the product. A run without names writes
// docs/how-it-works/performance.md, and one of scale docs/how-it-works/scale.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	app := &cli.App{
		Name:  "bench",
		Usage: "measure the product on labs on this machine, and print ratios",
		Flags: flags(),
		Action: func(c *cli.Context) error {
			return measure(c)
		},
	}
	if err := app.RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// sizes has the number of nodes, runs or calls for each measurement.
type sizes struct {
	one       int   // nodes resumed one after another
	floors    int   // plain runs of Terraform for comparison
	reimages  int   // nodes reimaged together
	old       int   // nodes reimaged by the old flow
	many      int   // nodes resumed together
	short     int   // jobs of 0 s
	rounds    int   // runs of these jobs with each slurm.launch
	straggle  int   // nodes resumed together, one of which does not come up
	idle      int   // stopped nodes
	launch    int   // jobs with each slurm.launch
	clusters  []int // sizes of the clusters that get one more node
	perState  int   // nodes in a Terraform state of these clusters
	together  []int // sizes of the clusters whose nodes are all resumed in one request
	reboots   int   // nodes of the largest of these clusters that reboot at once
	callers   []int // calls at once
	scale     []int // nodes of a job array
	deferring time.Duration
}

func flags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{Name: "checkout", Value: ".", Usage: "the checkout to measure"},
		&cli.StringSliceFlag{
			Name:  "only",
			Usage: "measure only these, and write no page but that of scale: " + strings.Join(names(), ", "),
		},
		&cli.StringFlag{
			Name: "release", Value: bookworm,
			Usage: "the Debian release of the lab's machines: " + bookworm + " (Slurm 22.05), or " + trixie +
				" (Slurm 24.11), of which no page is written",
		},
		&cli.IntFlag{Name: "one", Value: 5, Usage: "one: how often a node is measured"},
		&cli.IntFlag{Name: "floors", Value: 2, Usage: "one: how often Terraform alone is measured"},
		&cli.IntFlag{Name: "reimages", Value: 16, Usage: "reimage: nodes together"},
		&cli.IntFlag{Name: "old", Value: 2, Usage: "reimage: nodes by the old flow"},
		&cli.IntFlag{Name: "many", Value: 50, Usage: "many: nodes together"},
		&cli.IntFlag{Name: "straggle", Value: 20, Usage: "stragglers: nodes together"},
		&cli.IntFlag{Name: "idle", Value: 3, Usage: "idle: stopped nodes, started one after another"},
		&cli.IntFlag{Name: "launch", Value: 50, Usage: "launch: jobs with each slurm.launch"},
		&cli.IntFlag{Name: "short", Value: 1000, Usage: "short: jobs"},
		&cli.IntFlag{Name: "rounds", Value: 4, Usage: "short: how often with each slurm.launch"},
		&cli.IntSliceFlag{
			Name: "clusters", Value: cli.NewIntSlice(10, 1000, 4000), Usage: "size, status, waiting: nodes of each cluster",
		},
		&cli.IntFlag{
			Name: "per-state", Value: 32, Usage: "size, status, waiting, together: nodes in a Terraform state",
		},
		&cli.IntSliceFlag{
			Name: "together", Value: cli.NewIntSlice(250, 1000), Usage: "together: nodes of each cluster, in one request",
		},
		&cli.IntFlag{Name: "reboots", Value: 300, Usage: "together: reboots at once"},
		&cli.IntSliceFlag{Name: "scale", Value: cli.NewIntSlice(250, 500, 1000), Usage: "scale: nodes of a job array"},
		&cli.IntSliceFlag{Name: "callers", Value: cli.NewIntSlice(200, 1000), Usage: "callers: calls at once"},
		&cli.DurationFlag{Name: "deferring", Value: 30 * time.Second, Usage: "waiting: how long a worker is watched"},
	}
}

// benchmark is one measurement, which can run alone.
type benchmark struct {
	name   string
	groups func(sizes) []cluster.NodeGroup // the node groups that it needs on the lab; nil: it does not use the lab
	run    func(*bench, context.Context) (report, error)
}

func benchmarks() []benchmark {
	return []benchmark{
		{"deploy", nil, (*bench).deploy},
		{"one", oneGroups, (*bench).one},
		{"commands", commandGroups, (*bench).commands},
		{"idle", idleGroups, (*bench).idle},
		{"stragglers", straggleGroups, (*bench).stragglers},
		{"reimage", reimageGroups, (*bench).reimage},
		{"many", manyGroups, (*bench).many},
		{"launch", launchGroups, (*bench).launch},
		{"short", shortGroups, (*bench).short},
		{"slurm-24.11", nil, (*bench).newest},
		{"size", nil, (*bench).size},
		{"status", nil, (*bench).status},
		{"waiting", nil, (*bench).waiting},
		{"together", nil, (*bench).together},
		{"callers", nil, (*bench).callers},
		{"footprint", nil, (*bench).footprint},
		{"scale", nil, (*bench).scale},
	}
}

// document is a page that a run writes.
type document struct {
	title, command string
	file           string // in docs/how-it-works
}

var (
	performance = document{title: "Performance", command: "make bench", file: "performance.md"}
	thousand    = document{title: "A thousand nodes", command: "make bench-scale", file: "scale.md"}
)

// apart is the benchmark that a run measures only if it is named, since it needs most of the machine's memory and as
// long as all others.
const apart = "scale"

// documentOf returns the document that a run of the benchmarks with these names writes, nil if none.
func documentOf(only []string) *document {
	switch {
	case len(only) == 0:
		return &performance
	case len(only) == 1 && only[0] == apart:
		return &thousand
	}
	return nil
}

func names() []string {
	var all []string
	for _, b := range benchmarks() {
		all = append(all, b.name)
	}
	return all
}

// choose returns the benchmarks with these names; if there are no names, all but the one that is apart.
func choose(only []string) ([]benchmark, error) {
	var chosen []benchmark
	for _, b := range benchmarks() {
		if len(only) == 0 && b.name != apart || slices.Contains(only, b.name) {
			chosen = append(chosen, b)
		}
	}
	for _, name := range only {
		if !slices.Contains(names(), name) {
			return nil, fmt.Errorf("there is no benchmark %q: it is one of %s", name, strings.Join(names(), ", "))
		}
	}
	return chosen, nil
}

func measure(c *cli.Context) (err error) {
	only := slices.DeleteFunc(strings.FieldsFunc(strings.Join(c.StringSlice("only"), ","), func(r rune) bool {
		return r == ',' || r == ' '
	}), func(s string) bool { return s == "" })
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	checkout, err := filepath.Abs(c.Path("checkout"))
	if err != nil {
		return err
	}
	b := &bench{
		out: c.App.ErrWriter, begun: time.Now(), checkout: checkout, chosen: chosen, release: c.String("release"),
		sites: map[int]*site{},
	}
	if b.release != bookworm && b.release != trixie {
		return fmt.Errorf("--release %s: it is %s or %s", b.release, bookworm, trixie)
	}
	b.sizes = sizes{
		one: c.Int("one"), floors: c.Int("floors"), reimages: c.Int("reimages"), old: c.Int("old"), many: c.Int("many"),
		straggle: c.Int("straggle"), idle: c.Int("idle"), launch: c.Int("launch"), short: c.Int("short"),
		rounds:   c.Int("rounds"),
		clusters: c.IntSlice("clusters"), perState: c.Int("per-state"),
		together: c.IntSlice("together"), reboots: c.Int("reboots"), callers: c.IntSlice("callers"),
		deferring: c.Duration("deferring"), scale: c.IntSlice("scale"),
	}
	if err := adoptOrphans(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	page := newPage(b.begun)
	var failed []error
	for _, one := range chosen {
		b.say("benchmark %s", one.name)
		r, err := one.run(b, c.Context)
		if err != nil {
			r.failure = err.Error()
			failed = append(failed, fmt.Errorf("%s: %w", one.name, err))
		}
		page.add(one.name, r)
		if c.Context.Err() != nil {
			return errors.Join(failed...)
		}
	}
	page.took = time.Since(b.begun)
	failed = append(failed, page.broken(c.NumFlags() == 0)...)
	fmt.Fprint(c.App.Writer, page.text())
	if d := documentOf(only); d != nil && (b.release == bookworm || d == &thousand) {
		file := filepath.Join(checkout, "docs", "how-it-works", d.file)
		failed = append(failed, os.WriteFile(file, []byte(page.markdown(*d)), 0o644))
	}
	return errors.Join(failed...)
}
