//go:build !race

package storm

// storms is the default number of storms, which are the same in each run. A fault that needs a kill at one certain
// moment occurs in one of several hundred storms: `make nightly` plays new ones, 300 of each kind in a round, and
// TestStormsThatFailed keeps those that failed.
const storms = "100"
