//go:build race

package storm

// storms is the default number of storms. With the race detector each takes thirty times as long.
const storms = "30"
