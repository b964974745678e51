package tools

import (
	"context"
	"io"
)

// openStackPackages returns the packages of a complete OpenStack: see package lab/openstack. They take 3.5 GB.
func openStackPackages() []string {
	return []string{
		"mariadb-server", "rabbitmq-server", "memcached", "python3-memcache",
		"uwsgi-core", "uwsgi-plugin-python3",
		"keystone", "placement-api", "glance-api", "neutron-server",
		"nova-api", "nova-conductor", "nova-scheduler", "nova-compute",
	}
}

// InstallOpenStack installs Debian's packages of OpenStack, without starting their services. That takes minutes. It
// needs root, and the network only for missing packages.
func InstallOpenStack(ctx context.Context, checkout string, progress io.Writer) error {
	return install(ctx, checkout, progress, []chain{{packagesStep("OpenStack", openStackPackages())}})
}
