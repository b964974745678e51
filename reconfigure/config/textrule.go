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
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	people "github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// rule checks a text. The error has the problem and the remedy.
type rule func(string) error

// like requires that a regular expression matches the whole text.
func like(pattern, otherwise string) rule {
	// Most of a schema's rules have no text to check, and each call of Slurm reads the declaration.
	whole := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)$`) })
	return func(s string) error {
		switch {
		case s == "":
			return errors.New("is empty")
		case !whole().MatchString(s):
			return fmt.Errorf("%q %s", s, otherwise)
		}
		return nil
	}
}

// maybe also allows the empty text.
func maybe(check rule) rule {
	return func(s string) error {
		if s == "" {
			return nil
		}
		return check(s)
	}
}

// hours allows hours of the week.
func hours(s string) error {
	_, err := reconfigure.ParseHours(s)
	return err
}

// oneOf allows one of some words.
func oneOf(words ...string) rule {
	return func(s string) error {
		if slices.Contains(words, s) {
			return nil
		}
		message := fmt.Sprintf("%q is not one of %s", s, strings.Join(words, ", "))
		if near, ok := people.Nearest(s, words); ok {
			message += fmt.Sprintf("; did you mean %s?", near)
		}
		return errors.New(message)
	}
}

// noneOf rejects reserved words, in upper or lower case.
func noneOf(otherwise string, words ...string) rule {
	return func(s string) error {
		if slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(s, w) }) {
			return fmt.Errorf("%q %s; use another name", s, otherwise)
		}
		return nil
	}
}

// atMost limits the length of a text, in bytes.
func atMost(n int, why string) rule {
	return func(s string) error {
		if len(s) > n {
			return fmt.Errorf("%q is longer than %d characters, %s", s, n, why)
		}
		return nil
	}
}

// filled allows any non-empty text that does not begin or end with a blank.
func filled(s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return errors.New("is empty")
	case strings.TrimSpace(s) != s:
		return fmt.Errorf("%q begins or ends with a blank", s)
	}
	return nil
}

// address allows an IP address or a host name.
func address(s string) error {
	if _, err := netip.ParseAddr(s); err == nil {
		return nil
	}
	const label = `[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?`
	return like(label+`(?:\.`+label+`)*`, "is neither an IP address nor a host name (RFC 1123)")(s)
}

// network allows a network of IPv4 or IPv6 in the form that Neutron stores it.
func network(s string) error {
	prefix, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a network in CIDR notation, such as 192.0.2.0/24 or 2001:db8::/32", s)
	case prefix.Masked().String() != s:
		return fmt.Errorf("%q is not the network's first address; write %s", s, prefix.Masked())
	}
	return nil
}

// publicKey allows a key in OpenSSH's format on one line, without the options of authorized_keys.
func publicKey(s string) error {
	if strings.HasPrefix(s, "-----BEGIN") {
		return errors.New("looks like a private key; write the line of the .pub file")
	}
	_, _, options, _, err := ssh.ParseAuthorizedKey([]byte(s))
	if err != nil || len(options) > 0 {
		return errors.New("is not an OpenSSH public key, such as ssh-ed25519 AAAA… comment; copy the whole line of " +
			"the .pub file")
	}
	return nil
}

// postgresURL allows the URL of a PostgreSQL database without a password: the file is read by Ansible and may be under
// version control. The errors do not quote the URL, since it may have a password.
func postgresURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("is not a URL; write postgres://USER@HOST/DATABASE")
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return errors.New("is not the URL of a PostgreSQL database; write postgres://USER@HOST/DATABASE, or nothing " +
			"for a file in state_directory")
	}
	_, password := u.User.Password()
	if password || u.Query().Has("password") {
		return errors.New("contains a password; put it into ~/.pgpass of the owner of this checkout instead")
	}
	if database := strings.Trim(u.Path, "/"); database == "" && !u.Query().Has("dbname") {
		return errors.New("names no database; write postgres://USER@HOST/DATABASE")
	}
	return nil
}

// localAddress allows a port of a loopback address, or an absolute path, since the address asks for no password.
func localAddress(s string) error {
	if strings.HasPrefix(s, "/") {
		return absolute(s)
	}
	at, err := netip.ParseAddrPort(s)
	if err != nil || !at.Addr().IsLoopback() || at.Port() == 0 {
		return fmt.Errorf("%q is not a port of the loopback address; write 127.0.0.1:9758, or the absolute path of a "+
			"Unix socket, and let a proxy serve it to others", s)
	}
	return nil
}

// absolute allows an absolute path that needs no quotes in a shell script, in /etc/exports and in slurm.conf.
func absolute(s string) error {
	if err := like(`/[A-Za-z0-9._+@/-]*`, "is not an absolute path of letters, digits and . _ + @ - /")(s); err != nil {
		return err
	}
	if s == "/" || filepath.Clean(s) != s {
		return fmt.Errorf("%q is not the shortest path of a folder; write it without . and .. and without a slash at "+
			"its end", s)
	}
	return nil
}

// shared allows a folder that nodes may share. There, root of any node can act as any other user (nfs(5), sec=sys).
func shared(s string) error {
	if err := absolute(s); err != nil {
		return err
	}
	for _, private := range []string{
		"/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/root", "/run", "/sbin", "/sys", "/usr/bin", "/usr/lib",
		"/usr/libexec", "/usr/local/libexec/reconfigure", "/usr/sbin", "/var/lib/munge", "/var/lib/nfs",
		"/var/lib/reconfigure", "/var/lib/slurm", "/var/log/munge", "/var/log/slurm",
	} {
		if s == private || within(s, private) || within(private, s) {
			return fmt.Errorf("%q cannot be shared: %s belongs to the system of each node, and root of any node could "+
				"write there as another node's user; share only folders for users and their software", s, private)
		}
	}
	return nil
}

// within reports whether a path is below another one.
func within(path, folder string) bool { return strings.HasPrefix(path, folder+"/") }

// age allows a duration of an hour or more. Instances that live for less than an hour are a matter of fresh, not of
// max_age.
func age(s string) error {
	d, err := people.ParseDuration(s)
	if err == nil && d < time.Hour {
		err = fmt.Errorf("%q is less than an hour", s)
	}
	return err
}

// duration returns the duration of a text that age allows; 0 for an empty text.
func duration(s string) time.Duration {
	d, _ := people.ParseDuration(s) // age has checked it
	return d
}

// hint is the rule for the name of a scheduler hint.
func hint() rule {
	named := like(`[A-Za-z0-9_:.-]+`, "is not the name of a scheduler hint: letters, digits and _ : . -")
	return func(name string) error {
		if name == "group" {
			return errors.New("is the server group; set server_group of the node group")
		}
		return named(name)
	}
}

// metadatum is the rule for a name in the metadata of an instance, as Nova has it.
func metadatum() rule {
	named := like(`[A-Za-z0-9_:. -]{1,255}`, "is not a name of metadata: letters, digits, spaces and _ : . -")
	return func(name string) error {
		if strings.HasPrefix(name, reconfigure.MetadataPrefix) {
			return errors.New("begins with " + reconfigure.MetadataPrefix + ": these names belong to reconfigure")
		}
		return named(name)
	}
}
