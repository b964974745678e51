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
	Path    string // the key, as in node_groups[0].min_nodes; empty where the problem is the whole file's
	Message string // what is wrong, and what to do about it
}

func (p Problem) String() string {
	if p.Path == "" {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Path, p.Message)
}

// Problems is all that is wrong with a declaration, by line. Only an edit of the file helps: nothing of it may be retried.
type Problems []Problem

// Error has a line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// place is where in the file something stands.
type place struct {
	path string
	line int
}

// report gathers problems while the file is read, so that one does not hide the next.
type report struct {
	problems Problems
}

func (r *report) add(at place, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: File, Line: at.line, Path: at.path, Message: fmt.Sprintf(format, args...)})
}

// sorted is the problems as a reader goes through the file.
func (r *report) sorted() Problems {
	return slices.SortedStableFunc(slices.Values(r.problems), func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path))
	})
}
