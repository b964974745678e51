//go:build race

package storm

// storms is the default number of storms. With the race detector each takes three times as long.
// `make release-check` plays 30 new ones.
const storms = "10"
