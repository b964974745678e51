package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// addUser copies the account files of the folder etc into the folder to, with the user and without passwords. It
// returns the user's number. A computer on which eiffel is installed has a user of that name, whose entry in shadow(5)
// is locked: an sshd without PAM rejects such a user's keys.
func addUser(etc, to string) (uid int, err error) {
	files := map[string]string{}
	for _, name := range []string{"passwd", "group", "shadow"} {
		text, err := os.ReadFile(filepath.Join(etc, name))
		if err != nil {
			return 0, err
		}
		files[name] = string(text)
	}
	uid = freeID(files["passwd"], files["group"])
	return uid, errors.Join(
		os.WriteFile(filepath.Join(to, "passwd"), []byte(withEntry(files["passwd"],
			fmt.Sprintf("%s:*:%d:%d::/home/%s:/bin/bash", User, uid, uid, User))), 0o644),
		os.WriteFile(filepath.Join(to, "group"),
			[]byte(withEntry(files["group"], fmt.Sprintf("%s:*:%d:", User, uid))), 0o644),
		os.WriteFile(filepath.Join(to, "shadow"),
			[]byte(withEntry(withoutPasswords(files["shadow"]), User+":*:::::::")), 0o600))
}

// withoutPasswords returns the text of shadow(5) with "*" instead of each password.
func withoutPasswords(text string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		fields := strings.Split(line, ":")
		if len(fields) > 2 {
			fields[1] = "*"
		}
		all.WriteString(strings.Join(fields, ":"))
	}
	return all.String()
}

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
