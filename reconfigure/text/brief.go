package text

import "strings"

// Brief returns a message as one line. If it ends with an error of Terraform's, with or without a frame, about 200
// characters of that are left, without the frame. Brief reports whether something was cut.
func Brief(s string) (line string, cut bool) {
	const most = 200
	own, other := s, ""
	for _, begin := range []string{"╷", "│", "\nError: "} {
		if i := strings.Index(own, begin); i >= 0 {
			own, other = s[:i], s[i:]
		}
	}
	other = OneLine(strings.Map(func(r rune) rune {
		if strings.ContainsRune("│╷╵", r) {
			return ' '
		}
		return r
	}, other))
	if runes := []rune(other); len(runes) > most {
		other, cut = string(runes[:most]), true
		if blank := strings.LastIndexByte(other, ' '); blank > 0 {
			other = other[:blank]
		}
		other += " …"
	}
	return strings.TrimSpace(OneLine(own) + " " + other), cut
}
