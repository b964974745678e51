//go:build !race

package storm

// storms is the default number of storms. A fault that needs a kill at one certain moment occurs in one of several
// hundred storms.
const storms = "300"
