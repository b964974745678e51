package site

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironment(t *testing.T) {
	for name, tc := range map[string]struct {
		caller []string
		kept   bool
	}{
		"where things are": {[]string{
			"PATH=/usr/bin:/bin", "HOME=/home/eiffel", "TMPDIR=/var/tmp", "LANG=de_DE.UTF-8", "LC_ALL=C", "TZ=UTC",
			"XDG_CONFIG_HOME=/home/eiffel/.config",
			"TF_CLI_CONFIG_FILE=/etc/terraformrc", "TF_PLUGIN_CACHE_DIR=/var/cache/tf",
			"OS_CLIENT_CONFIG_FILE=/etc/clouds.yaml", "SSL_CERT_FILE=/etc/ca.pem",
			"https_proxy=http://proxy:3128", "HTTPS_PROXY=http://proxy:3128", "no_proxy=a,b=c",
		}, true},
		"the state's passwords": {[]string{
			"AWS_PROFILE=eiffel", "PG_CONN_STR=postgres://db", "PGPASSWORD=x=y", "TF_HTTP_PASSWORD=x",
			"TF_TOKEN_app_terraform_io=x",
		}, true},
		"ours": {[]string{"RECONFIGURE_DIR=/opt/eiffel", "EIFFEL_LAB=/tmp/lab"}, true},
		"another cloud, project or user": {[]string{
			"OS_CLOUD=other", "OS_PROJECT_NAME=other", "OS_AUTH_URL=http://elsewhere", "OS_USERNAME=alice",
			"OS_IMAGE_ID=1",
		}, false},
		"what Terraform would do": {[]string{
			"TF_VAR_nodes={}", "TF_CLI_ARGS=-destroy", "TF_CLI_ARGS_plan=-destroy", "TF_WORKSPACE=other",
			"TF_DATA_DIR=/tmp", "TF_LOG=trace",
		}, false},
		"what Ansible would do": {[]string{
			"ANSIBLE_CHECK_MODE=1", "ANSIBLE_CONFIG=/home/alice/ansible.cfg", "PYTHONPATH=/home/alice/lib",
			"PYTHONHOME=/opt",
		}, false},
		"what goes with a session": {[]string{
			"SSH_AUTH_SOCK=/tmp/ssh-x/agent.1", "XDG_RUNTIME_DIR=/run/user/1", "SSH_CONNECTION=192.0.2.1",
			"SUDO_USER=alice", "DISPLAY=:0",
		}, false},
		"what resembles something better": {[]string{
			"PATHOLOGY=x", "OS_CLIENT_CONFIG_FILE_2=x", "HOMER=x", "XLC_ALL=C",
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			want := tc.caller
			if !tc.kept {
				want = nil
			}
			if diff := cmp.Diff(want, Environment(tc.caller)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
