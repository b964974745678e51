package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// addUser copies the account files of the folder etc into the folder to, with the user but without passwords. It
// returns the user's id. A computer on which eiffel is installed has a user of that name, whose entry in shadow(5) is
// locked: an sshd without PAM rejects such a user's keys.
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

// withoutPasswords returns the text of shadow(5) with "*" in place of each password.
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

// firstID is in practice above the ids that Debian assigns to users and groups (adduser.conf(5)).
const firstID = 20000

// freeID returns the first id from firstID on that is in no entry of passwd(5) or group(5).
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

// withEntry returns the text of passwd(5) or group(5) with an entry, which replaces an entry of the same name.
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
