package text

import (
	"strings"

	"github.com/agext/levenshtein"
)

// Nearest returns the word with the fewest edits from a misspelt one; false if none is near. At least half of the word
// must be right.
func Nearest(word string, words []string) (string, bool) {
	const typos = 2 // the maximum number of edits
	best, cost := "", typos+1
	for _, w := range words {
		if d := levenshtein.Distance(strings.ToLower(word), strings.ToLower(w), nil); d < cost && 2*d <= max(len(w), len(word)) {
			best, cost = w, d
		}
	}
	return best, cost <= typos
}
