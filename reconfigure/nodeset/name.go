package nodeset

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

const (
	// maxName is the longest label that DNS has (RFC 1035, section 2.3.4). Slurm and Linux allow one byte more.
	maxName = 63
	// maxNumber is the largest number that may stand in brackets or at a name's end. Slurm keeps it in 64 bits unsigned and does not look out for more:
	// scontrol 22.05 prints another name for n18446744073709551616 and crashes on a range that ends one below it. Half of that is safe everywhere.
	maxNumber = math.MaxInt64
)

// ValidName returns an error that says why, if name is not one that Slurm and DNS both take for one node: a label of RFC 1123, section 2.1, in lower case,
// because Slurm tells LX from lx (scontrol(1)) and DNS does not; no word that Slurm or the resolver understands otherwise; nothing that resolvers read as an
// address; and no number at its end that Slurm cannot count to.
func ValidName(name string) error {
	if fault := nameFault(name); fault != "" {
		return fmt.Errorf("node name %s %s", abbreviate(name, 0), fault)
	}
	return nil
}

// nameFault is what is wrong with a name, as the end of a sentence about it, or empty.
func nameFault(name string) string {
	if name == "" {
		return "is empty"
	}
	for _, r := range name {
		if fault := runeFault(r); fault != "" {
			return "has " + fault
		}
	}
	switch {
	case len(name) > maxName:
		return tooLong
	case strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-"):
		return "begins or ends with a hyphen"
	case name == "all" || name == "default": // in any case of letters (slurm.conf(5), NodeName)
		return "is a word that Slurm reserves"
	case name == "localhost": // RFC 6761, section 6.3
		return "means every machine itself"
	case isAddress(name):
		return "is an IPv4 address to resolvers"
	}
	if _, digits := split(name); digits != "" {
		if _, ok := parseNumber(digits); !ok {
			return "ends in " + tooLarge
		}
	}
	return ""
}

// Spoken of what is there and of what a hostlist would make.
const (
	tooLong  = "is longer than 63 bytes"
	tooLarge = "a number that Slurm cannot count to"
)

// runeFault says why a rune cannot be in a name, or nothing.
func runeFault(r rune) string {
	switch {
	case 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-':
		return ""
	case 'A' <= r && r <= 'Z':
		return fmt.Sprintf("the upper case letter %q, which Slurm tells from lower case and DNS does not", r)
	case unicode.IsSpace(r) || unicode.IsControl(r):
		return fmt.Sprintf("the blank or control character %q", r)
	default:
		return fmt.Sprintf("%q, which is no letter of a to z, digit or hyphen", r)
	}
}

// isAddress tells whether inet_aton(3) reads a valid label as an address: a plain number is one, decimal or hexadecimal.
func isAddress(name string) bool {
	if hex, ok := strings.CutPrefix(name, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(name, "0123456789") == ""
}

// parseNumber is the number that digits make, unless Slurm cannot count to it.
func parseNumber(digits string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n <= maxNumber
}
