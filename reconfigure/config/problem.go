package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in the declaration.
type Problem struct {
	File    string // relative to the cluster directory
	Line    int    // counted from 1
	Path    string // the key, as in node_groups[0].min_nodes; empty for a problem of the whole file
	Message string // the problem and the remedy
}

func (p Problem) String() string {
	if p.Path == "" {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Path, p.Message)
}

// Problems has all problems of a declaration, sorted by line. The file must be edited: a retry gives the same
// problems.
type Problems []Problem

// Error returns a line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// place is a position in the file.
type place struct {
	path string
	line int
}

// report collects the problems while the file is read.
type report struct {
	file     string // relative to the cluster directory
	problems Problems
}

func (r *report) add(at place, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: at.line, Path: at.path,
		Message: fmt.Sprintf(format, args...)})
}

// sorted returns the problems in the order of the file.
func (r *report) sorted() Problems {
	return slices.SortedStableFunc(slices.Values(r.problems), func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path))
	})
}
