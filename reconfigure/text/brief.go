package text

import "strings"

// Brief returns text of another program as one line of at most about 200 characters, without the frames that Terraform
// draws around its errors. It reports whether something is left out.
func Brief(s string) (line string, cut bool) {
	const most = 200
	frame := func(r rune) rune {
		if strings.ContainsRune("│╷╵─", r) {
			return ' '
		}
		return r
	}
	line = OneLine(strings.Map(frame, s))
	runes := []rune(line)
	if len(runes) <= most {
		return line, false
	}
	line = string(runes[:most])
	if blank := strings.LastIndexByte(line, ' '); blank > 0 {
		line = line[:blank]
	}
	return line + " …", true
}
