package main

import (
	"fmt"
	"os"
	"os/user"
	"strings"
)

// caller says who asks, for people: the user, who is behind sudo, and from where.
func caller() string {
	name := fmt.Sprintf("uid %d", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return describeCaller(name, os.Getenv)
}

func describeCaller(name string, env func(string) string) string {
	if behind := env("SUDO_USER"); behind != "" && behind != name { // sudo(8), ENVIRONMENT
		name = behind + " as " + name
	}
	if from, _, ok := strings.Cut(env("SSH_CONNECTION"), " "); ok { // ssh(1), ENVIRONMENT
		name += " from " + from
	}
	return name
}
