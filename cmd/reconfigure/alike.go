package main

import "github.com/eiffel-hpc/eiffel/reconfigure/nodeset"

// company is nodes of which the same is told.
type company[T any] struct {
	first T // what is told, as it is told of one of them
	nodes nodeset.NodeSet
}

// alike puts those together of which the same is told, in the order in which it is told first: an image that was bumped concerns thousands of nodes. The key of what
// is told is all of it but the node, which is empty where it is told of no single one.
func alike[T any, K comparable](all []T, key func(T) (node string, rest K)) []company[T] {
	var (
		companies []company[T]
		names     [][]string
		at        = map[K]int{}
	)
	for _, one := range all {
		node, rest := key(one)
		i, known := at[rest]
		if !known {
			i = len(companies)
			at[rest] = i
			companies, names = append(companies, company[T]{first: one}), append(names, nil)
		}
		if node != "" {
			names[i] = append(names[i], node)
		}
	}
	for i := range companies {
		companies[i].nodes = nodeset.Of(names[i]...)
	}
	return companies
}
