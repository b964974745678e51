package nodeset

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

const (
	// maxName is the longest label in DNS, in bytes (RFC 1035, section 2.3.4). Slurm and Linux allow one byte more.
	maxName = 63
	// maxNumber is the largest number in brackets or at the end of a name. Slurm stores it in 64 bits, unsigned, and
	// does not check for overflow: scontrol 22.05 prints another name for n18446744073709551616 and crashes on a range
	// that ends one below it. Half of that is safe.
	maxNumber = math.MaxInt64
)

// ValidName returns an error with the reason if name is not a valid node name for both Slurm and DNS. A valid name is
// a label (RFC 1123, section 2.1) in lower case, because node names are case-sensitive in Slurm (scontrol(1)) and not
// in DNS. It is not a word that Slurm or the resolver reserves, and not a name that resolvers read as an address; a
// number at its end is at most 2^63-1.
func ValidName(name string) error {
	if fault := nameFault(name); fault != "" {
		return fmt.Errorf("node name %s %s", abbreviate(name, 0), fault)
	}
	return nil
}

// nameFault returns the fault of a name, as the end of a sentence that begins with the name. It is empty for a valid
// name.
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
		return "is reserved for the loopback address"
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

// Parts of messages of ValidName and Parse.
const (
	tooLong  = "is longer than 63 bytes"
	tooLarge = "a number that is too large for Slurm"
)

// runeFault returns why a rune cannot be in a name. It is empty for a valid rune.
func runeFault(r rune) string {
	switch {
	case 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-':
		return ""
	case 'A' <= r && r <= 'Z':
		return fmt.Sprintf(
			"the upper case letter %q; node names are in lower case, since DNS ignores case and Slurm does not",
			r,
		)
	case unicode.IsSpace(r) || unicode.IsControl(r):
		return fmt.Sprintf("the blank or control character %q", r)
	default:
		return fmt.Sprintf("%q, which is not a letter from a to z, a digit or a hyphen", r)
	}
}

// isAddress reports whether inet_aton(3) reads a valid label as an address. It does so for a decimal or hexadecimal
// number.
func isAddress(name string) bool {
	if hex, ok := strings.CutPrefix(name, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(name, "0123456789") == ""
}

// parseNumber reads a decimal number. ok is false if the number is larger than maxNumber.
func parseNumber(digits string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n <= maxNumber
}
