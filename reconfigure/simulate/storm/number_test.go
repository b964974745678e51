//go:build !race

package storm

// storms is the default number of storms. A fault that needs a kill at one moment shows in one of some hundreds.
const storms = "300"
