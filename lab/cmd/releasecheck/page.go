package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// row is a row of the page.
type row struct{ part, version, scenario, date, outcome string }

// head is the page without rows.
const head = "<!-- Written by `make release-check`. -->\n# What was tested before a release\n\n" +
	"`make release-check` writes this page, and `make matrix` the rows of Debian's releases. A run of some tests\n" +
	"replaces their rows alone: those of other tests have their own date.\n\n" +
	"| part | version | scenario | date | outcome |\n|---|---|---|---|---|\n"

// replace returns a page with new rows of a part. They replace its old rows, or come last if there are none. If the
// rows are only some of the part's, the other old rows stay.
func replace(page []byte, part string, rows []row, whole bool) []byte {
	var before, of, after []row
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 5 || cells[0] == "part" {
			continue
		}
		switch r := (row{cells[0], cells[1], cells[2], cells[3], cells[4]}); {
		case r.part == part:
			of = append(of, r)
		case len(of) == 0:
			before = append(before, r)
		default:
			after = append(after, r)
		}
	}
	if !whole {
		for _, r := range rows {
			i := slices.IndexFunc(of, func(f row) bool { return f.scenario == r.scenario })
			if i < 0 {
				i, of = len(of), append(of, r)
			}
			of[i] = r
		}
		rows = of
	}
	text := []byte(head)
	for _, r := range slices.Concat(before, rows, after) {
		text = fmt.Appendf(text, "| %s | %s | %s | %s | %s |\n", r.part, r.version, r.scenario, r.date, r.outcome)
	}
	return text
}

// result is the outcome of one scenario: "passed", with the test's measurements, "failed", "skipped" or unended.
type result struct{ scenario, outcome string }

const unended = "did not end"

// test is a test, or, without a name, a package.
type test struct{ pkg, name, scenario, outcome, measured, printed string }

// read reads the events of `go test -json` (go doc test2json), and returns the results of scenarios in the order in
// which they began. It prints the outcome of each test, and the output of those that did not pass.
func read(events io.Reader, out io.Writer) ([]result, error) {
	var tests []*test
	known := map[[2]string]*test{}
	outcomes := map[string]string{"pass": "passed", "fail": "failed", "skip": "skipped"}
	for lines := json.NewDecoder(events); ; {
		var e struct{ Action, Package, Test, Key, Value, Output string }
		if err := lines.Decode(&e); err != nil {
			_, _ = io.Copy(io.Discard, events) // otherwise `go test` would wait for a reader
			for _, t := range tests {
				if t.outcome == unended {
					fmt.Fprintf(out, "%s: %s\n%s", unended, t, t.printed)
				}
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return results(tests), err
		}
		if e.Test == "" {
			fmt.Fprint(out, e.Output)
		}
		if e.Package == "" { // output of the build
			continue
		}
		t := known[[2]string{e.Package, e.Test}]
		if t == nil {
			t = &test{pkg: path.Base(e.Package), name: e.Test, outcome: unended}
			known[[2]string{e.Package, e.Test}], tests = t, append(tests, t)
		}
		if outcome := outcomes[e.Action]; outcome != "" && e.Test != "" {
			fmt.Fprintf(out, "%s: %s\n", outcome, t)
			if e.Action == "fail" {
				fmt.Fprint(out, t.printed)
			}
		}
		switch t.outcome = cmp.Or(outcomes[e.Action], t.outcome); e.Action {
		case "attr":
			switch e.Key {
			case "scenario":
				t.scenario = e.Value
			case "measured":
				t.measured = e.Value
			}
		case "output":
			t.printed += e.Output
		}
	}
}

// results returns the results of scenarios, and of tests that are neither a part of a scenario nor a group of tests.
// Groups of tests, and packages, have one only if they failed by themselves.
func results(tests []*test) []result {
	var all []result
	for _, t := range tests {
		within := slices.ContainsFunc(tests, func(u *test) bool { return u.scenario != "" && t.in(u) })
		parts := slices.ContainsFunc(tests, func(u *test) bool { return u.in(t) })
		blamed := slices.ContainsFunc(tests, func(u *test) bool { return u.in(t) && u.bad() })
		if t.scenario != "" || !within && (t.name != "" && !parts || t.bad() && !blamed) {
			outcome := t.outcome
			if outcome == "passed" && t.measured != "" {
				outcome += ": " + t.measured
			}
			all = append(all, result{t.String(), outcome})
		}
	}
	return all
}

func (t *test) bad() bool { return t.outcome == "failed" || t.outcome == unended }

// in reports whether a test is a part of another one, or of a package.
func (t *test) in(u *test) bool {
	return t.pkg == u.pkg && t.name != "" && (u.name == "" || strings.HasPrefix(t.name, u.name+"/"))
}

// String returns the test's scenario, or words from the names of its package and of the test.
func (t *test) String() string {
	if t.scenario != "" {
		return t.scenario
	}
	name, parts, _ := strings.Cut(strings.TrimPrefix(t.name, "Test"), "/")
	words := strings.ToLower(strings.Join(regexp.MustCompile(`[A-Z][a-z0-9]*`).FindAllString(name, -1), " "))
	if parts != "" {
		words += ": " + strings.NewReplacer("_", " ", "/", ": ").Replace(parts)
	}
	return t.pkg + ": " + cmp.Or(words, "before or after its tests")
}
