package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// row is a row of the page.
type row struct{ part, version, scenario, date, outcome string }

// head is the page without rows.
const head = "# What was tested before a release\n\n`make release-check` writes this page.\n\n" +
	"| part | version | scenario | date | outcome |\n|---|---|---|---|---|\n"

// replace returns a page with new rows. They take the place of the former rows of the same parts, or come last.
func replace(page []byte, rows []row) []byte {
	renewed := map[string]bool{}
	for _, r := range rows {
		renewed[r.part] = true
	}
	var before, after strings.Builder
	to := &before
	for line := range strings.Lines(strings.TrimPrefix(string(page), head)) {
		part, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if renewed[part] {
			to = &after
			continue
		}
		to.WriteString(line)
	}
	for _, r := range rows {
		fmt.Fprintf(&before, "| %s | %s | %s | %s | %s |\n", r.part, r.version, r.scenario, r.date, r.outcome)
	}
	return []byte(head + before.String() + after.String())
}

// result is the outcome of one scenario: "passed", "failed", "skipped" or "did not end".
type result struct{ scenario, outcome string }

// read reads the events of `go test -json`, copies what tests print to out, and returns the results of all tests that
// have an attribute "scenario", in their order.
func read(events io.Reader, out io.Writer) ([]result, error) {
	var results []result
	at := map[string]int{} // by test
	outcomes := map[string]string{"pass": "passed", "fail": "failed", "skip": "skipped"}
	for r := bufio.NewReader(events); ; {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			var event struct{ Action, Test, Key, Value, Output string }
			if err := json.Unmarshal(line, &event); err != nil {
				return results, fmt.Errorf("event %q: %w", line, err)
			}
			i, known := at[event.Test]
			switch outcome := outcomes[event.Action]; {
			case event.Action == "attr" && event.Key == "scenario":
				at[event.Test] = len(results)
				results = append(results, result{event.Value, "did not end"})
			case known && outcome != "":
				results[i].outcome = outcome
			case event.Action == "output":
				fmt.Fprint(out, event.Output)
			}
		}
		if errors.Is(err, io.EOF) {
			return results, nil
		}
		if err != nil {
			return results, err
		}
	}
}
