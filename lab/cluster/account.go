package cluster

import (
	"strconv"
	"strings"
)

// firstID is above the numbers that Debian gives to users and groups of a computer (adduser.conf(5)) in practice.
const firstID = 20000

// freeID returns the first number from firstID on that no entry of passwd(5) or group(5) has.
func freeID(accounts ...string) int {
	taken := map[string]bool{}
	for _, text := range accounts {
		for line := range strings.Lines(text) {
			if fields := strings.Split(line, ":"); len(fields) > 2 {
				taken[fields[2]] = true
			}
		}
	}
	id := firstID
	for taken[strconv.Itoa(id)] {
		id++
	}
	return id
}

// withEntry returns the text of passwd(5) or group(5) with an entry, instead of one with the same name.
func withEntry(text, entry string) string {
	name, _, _ := strings.Cut(entry, ":")
	var all strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, name+":") {
			all.WriteString(line + "\n")
		}
	}
	return all.String() + entry + "\n"
}
