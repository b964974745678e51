package client

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
)

// callerKey is the key of a context's value.
type callerKey struct{}

// Caller returns the caller of a command, for people: the key that the gate accepted, or else the user, with the user
// who called sudo; and the remote address.
func Caller(ctx context.Context) string {
	if name, ok := ctx.Value(callerKey{}).(string); ok {
		return name
	}
	name := fmt.Sprintf("uid %d", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return describeCaller(name, os.Getenv)
}

// ThroughGate reports whether the call came through the gate: it is from Slurm, not from a person.
func ThroughGate(ctx context.Context) bool {
	_, is := ctx.Value(callerKey{}).(string)
	return is
}

func describeCaller(name string, env func(string) string) string {
	if behind := env("SUDO_USER"); behind != "" && behind != name { // sudo(8), ENVIRONMENT
		name = behind + " as " + name
	}
	if from := peer(env); from != "" {
		name += " from " + from
	}
	return name
}

// peer returns the address of the SSH client; empty if there is none (ssh(1), ENVIRONMENT).
func peer(env func(string) string) string {
	from, _, ok := strings.Cut(env("SSH_CONNECTION"), " ")
	if !ok {
		return ""
	}
	return from
}
