package client

import "testing"

func TestCallerNamesWhoIsBehindIt(t *testing.T) {
	const ssh = "192.0.2.7 50022 192.0.2.10 22"
	for _, tc := range []struct{ name, sudo, ssh, want string }{
		{"eiffel", "", "", "eiffel"},
		{"eiffel", "", ssh, "eiffel from 192.0.2.7"},
		{"root", "alice", "", "alice as root"},
		{"root", "root", "", "root"},
		{"root", "alice", ssh, "alice as root from 192.0.2.7"},
		{"eiffel", "", "garbage", "eiffel"},
	} {
		env := map[string]string{"SUDO_USER": tc.sudo, "SSH_CONNECTION": tc.ssh}
		if got := describeCaller(tc.name, func(key string) string { return env[key] }); got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}
