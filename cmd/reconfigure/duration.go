package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// durationFlag returns a flag that text.ParseDuration reads; its default, standard, has the same notation.
func durationFlag(name, standard, usage string) cli.Flag {
	value := new(duration)
	if err := value.Set(standard); err != nil {
		panic(err)
	}
	return &cli.GenericFlag{Name: name, Value: value, DefaultText: standard, Usage: usage}
}

// durationOf returns the value of a durationFlag.
func durationOf(c *cli.Context, name string) time.Duration {
	return time.Duration(*c.Generic(name).(*duration))
}

// duration is a flag.Value.
type duration time.Duration

func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Set(s string) error {
	parsed, err := text.ParseDuration(s)
	*d = duration(parsed)
	return err
}
