package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// rule says what is wrong with a text, and what to do about it.
type rule func(string) error

// like is a rule that a regular expression, which must match the whole text, tells.
func like(pattern, otherwise string) rule {
	whole := regexp.MustCompile(`^(?:` + pattern + `)$`)
	return func(s string) error {
		switch {
		case s == "":
			return errors.New("is empty")
		case !whole.MatchString(s):
			return fmt.Errorf("%q %s", s, otherwise)
		}
		return nil
	}
}

// maybe is a rule that also takes the empty text.
func maybe(check rule) rule {
	return func(s string) error {
		if s == "" {
			return nil
		}
		return check(s)
	}
}

// oneOf is a choice of words.
func oneOf(words ...string) rule {
	return func(s string) error {
		if slices.Contains(words, s) {
			return nil
		}
		message := fmt.Sprintf("%q is not one of %s", s, strings.Join(words, ", "))
		if near, ok := nearest(s, words); ok {
			message += fmt.Sprintf("; did you mean %s?", near)
		}
		return errors.New(message)
	}
}

// noneOf refuses words that mean something else, in whatever case.
func noneOf(otherwise string, words ...string) rule {
	return func(s string) error {
		if slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(s, w) }) {
			return fmt.Errorf("%q %s; take another name", s, otherwise)
		}
		return nil
	}
}

// atMost bounds a text's length, which is that of its bytes.
func atMost(n int, why string) rule {
	return func(s string) error {
		if len(s) > n {
			return fmt.Errorf("%q is longer than %d characters, %s", s, n, why)
		}
		return nil
	}
}

// filled is any text that does not begin or end with a blank.
func filled(s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return errors.New("is empty")
	case strings.TrimSpace(s) != s:
		return fmt.Errorf("%q begins or ends with a blank", s)
	}
	return nil
}

// address is an IP address or a host name that SSH can be told.
func address(s string) error {
	if _, err := netip.ParseAddr(s); err == nil {
		return nil
	}
	const label = `[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?`
	return like(label+`(?:\.`+label+`)*`, "is neither an IP address nor a host name (RFC 1123)")(s)
}

// publicKey is one line of OpenSSH's format, without the options that authorized_keys may have before it.
func publicKey(s string) error {
	if strings.HasPrefix(s, "-----BEGIN") {
		return errors.New("looks like a private key; take the line of the .pub file beside it")
	}
	_, _, options, _, err := ssh.ParseAuthorizedKey([]byte(s))
	if err != nil || len(options) > 0 {
		return errors.New("is not an OpenSSH public key, as in ssh-ed25519 AAAA… comment; copy the whole line of the .pub file")
	}
	return nil
}

// postgresURL is where a PostgreSQL database is. The file has many readers, Ansible and the checkout's history among them, so a password has no place here; nor in
// what is said of one, so no text of the URL is.
func postgresURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("is not a URL; write postgres://USER@HOST/DATABASE")
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return errors.New("is not the URL of a PostgreSQL database; write postgres://USER@HOST/DATABASE, or nothing for a file in state_directory")
	}
	_, password := u.User.Password()
	if password || u.Query().Has("password") {
		return errors.New("has a password in it; put that into ~/.pgpass of whoever owns this checkout, and leave it out here")
	}
	if database := strings.Trim(u.Path, "/"); database == "" && !u.Query().Has("dbname") {
		return errors.New("names no database; write postgres://USER@HOST/DATABASE")
	}
	return nil
}

// absolute is a path that may stand unquoted in a shell script, in /etc/exports and in slurm.conf.
func absolute(s string) error {
	if err := like(`/[A-Za-z0-9._+@/-]*`, "is not an absolute path of letters, digits and . _ + @ - /")(s); err != nil {
		return err
	}
	if s == "/" || filepath.Clean(s) != s {
		return fmt.Errorf("%q is not a folder's path in short; write it without . and .. and without a slash at its end", s)
	}
	return nil
}
