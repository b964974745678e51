package nodeset

import (
	"cmp"
	"strings"
)

// compare is the canonical order of names. Names with the same prefix are always adjacent, so that fold finds every
// range in one pass. Only equal names compare as equal.
func compare(a, b string) int {
	prefixA, numberA := split(a)
	prefixB, numberB := split(b)
	if order := comparePrefixes(prefixA, prefixB); order != 0 {
		return order
	}
	return compareNumbers(numberA, numberB)
}

// split separates the digits at the end of a name.
func split(name string) (prefix, number string) {
	i := len(name)
	for i > 0 && isDigit(name[i-1]) {
		i--
	}
	return name[:i], name[i:]
}

// comparePrefixes compares byte by byte, and each run of digits as one number.
func comparePrefixes(a, b string) int {
	for len(a) > 0 && len(b) > 0 {
		runA, runB := leadingDigits(a), leadingDigits(b)
		if runA == "" || runB == "" {
			runA, runB = a[:1], b[:1]
		}
		if order := compareNumbers(runA, runB); order != 0 {
			return order
		}
		a, b = a[len(runA):], b[len(runB):]
	}
	return cmp.Compare(len(a), len(b))
}

// compareNumbers compares runs of digits of any length: the shorter is the smaller. For numbers without leading
// zeros, and for numbers of the same width, that is the numeric order. Numbers of different widths are sorted
// separately.
func compareNumbers(a, b string) int {
	if order := cmp.Compare(len(a), len(b)); order != 0 {
		return order
	}
	return strings.Compare(a, b)
}

func leadingDigits(s string) string {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return s[:i]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
