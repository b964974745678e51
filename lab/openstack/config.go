package openstack

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// password is the password of all users except the project's. The services listen only on loopback, and end with the
// test.
const password = "labpass"

// ports are the ports of the services, on 127.0.0.1.
type ports struct{ Database, Queue, QueuePeers, Erlang, Cache, Identity, Placement, Compute, Image, Network int }

// firstPort and lastPort are the range of the ports, which no other service of Debian uses.
const firstPort, lastPort = 18701, 18710

func thePorts() ports {
	return ports{
		Database: firstPort, Queue: 18702, QueuePeers: 18703, Erlang: 18704, Cache: 18705,
		Identity: 18706, Placement: 18707, Compute: 18708, Image: 18709, Network: lastPort,
	}
}

// url returns the URL of a service.
func url(port int, path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", port, path) }

// settings are the inputs of the configuration files.
type settings struct {
	// Dir is the folder of all files.
	Dir      string
	Password string
	Ports    ports
	// Tokens is the lifetime of a token in seconds.
	Tokens int
	// Hypervisor is the URL of the machines behind the servers; "" if there are none.
	Hypervisor string
	Cloud      labcloud.Config
}

// newSettings returns the inputs of a cloud's files.
func newSettings(cfg labcloud.Config, hypervisor string) settings {
	tokens := cfg.Timings.Token
	if tokens == 0 {
		tokens = time.Hour
	}
	return settings{
		Dir: dir, Password: password, Ports: thePorts(), Tokens: int(tokens.Seconds()), Hypervisor: hypervisor, Cloud: cfg,
	}
}

// Identity returns Keystone's URL.
func (s settings) Identity() string { return url(s.Ports.Identity, "/v3") }

// Database returns the URL of a database for SQLAlchemy.
func (s settings) Database(name string) string {
	return fmt.Sprintf("mysql+pymysql://openstack:%s@127.0.0.1:%d/%s", s.Password, s.Ports.Database, name)
}

// Queue returns the URL of RabbitMQ for oslo.messaging.
func (s settings) Queue() string {
	return fmt.Sprintf("rabbit://openstack:%s@127.0.0.1:%d/", s.Password, s.Ports.Queue)
}

// Cache returns the address of memcached.
func (s settings) Cache() string { return fmt.Sprintf("127.0.0.1:%d", s.Ports.Cache) }

// databases returns the names of all databases.
func databases() []string {
	return []string{"keystone", "placement", "glance", "neutron", "nova_api", "nova_cell0", "nova"}
}

//go:embed etc
var files embed.FS

// shared has the parts that several configuration files share: how a service logs in, and how it checks tokens.
const shared = `
{{define "login" -}}
auth_type = password
auth_url = {{.Identity}}
username = admin
password = {{.Password}}
project_name = admin
user_domain_name = Default
project_domain_name = Default
region_name = RegionOne
{{- end}}
{{define "authtoken" -}}
{{template "login" .}}
www_authenticate_uri = {{.Identity}}
interface = public
memcached_servers = {{.Cache}}
service_token_roles = admin
service_token_roles_required = true
{{- end}}`

// writeFiles writes the configuration files below the folder etc of s.Dir.
func (s settings) writeFiles() error {
	return fs.WalkDir(files, "etc", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(s.Dir, path)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		all, err := template.New(path).Option("missingkey=error").Parse(shared)
		if err != nil {
			return err
		}
		file, err := os.Create(target)
		if err != nil {
			return err
		}
		defer file.Close()
		if all, err = all.Parse(string(text)); err != nil {
			return err
		}
		return all.Execute(file, s)
	})
}
