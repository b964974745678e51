package main

import (
	"context"
	"errors"
)

// newest measures `one` and `launch` on machines of Debian 13, whose Slurm is 24.11.
func (b *bench) newest(ctx context.Context) (r report, err error) {
	r.about = "`one` and `launch` with Slurm 24.11, on machines of Debian 13. The table has the number of jobs by the " +
		"time of their first line."
	if b.real != nil { // two labs would disturb each other
		if err := b.real.close(); err != nil {
			return r, err
		}
		b.real = nil
	}
	other := b.other(trixie, oneGroups, launchGroups)
	defer func() { err = errors.Join(err, other.close()) }()
	for _, measure := range []func(*bench, context.Context) (report, error){(*bench).one, (*bench).launch} {
		measured, err := measure(other, ctx)
		r.rows, r.details = append(r.rows, measured.rows...), measured.details
		if err != nil {
			return r, err
		}
	}
	return r, nil
}
