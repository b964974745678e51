package openstack

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"regexp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// The types of resources of the root module.
const (
	instanceType = "openstack_compute_instance_v2"
	portType     = "openstack_networking_port_v2"
	groupType    = "openstack_networking_secgroup_v2"
)

// powerState is the attribute of an instance for whether it runs.
const powerState = "power_state"

// Provider describes OpenStack.
func Provider() reconfigure.Provider {
	return reconfigure.Provider{
		Name: "openstack",
		Plugin: reconfigure.Plugin{
			Source: "terraform-provider-openstack/openstack", Oldest: "1.54.0",
			Tested: []string{"1.54.1", "3.4.0"},
		},
		Module: reconfigure.RootModule{
			Instance: instanceType, Port: portType, PortAddresses: "all_fixed_ips", Group: groupType,
			Replace: instanceType, Power: powerState, Firewall: true, Placement: true,
			// Since version 1.48 the provider rebuilds an instance in place for a new image, and resizes it for a new
			// flavor. Both end its jobs.
			Updates: map[string]reconfigure.Effect{
				"image_id": reconfigure.EffectRebuild, "image_name": reconfigure.EffectRebuild,
				"flavor_id": reconfigure.EffectResize, "flavor_name": reconfigure.EffectResize,
			},
			// The provider would use them instead of the instance's image and flavor.
			Unset: []string{"OS_IMAGE_ID", "OS_IMAGE_NAME", "OS_FLAVOR_ID", "OS_FLAVOR_NAME"},
			Read:  made, Finish: finish, Class: providerClass,
			Attributes: []string{"metadata", "image_id", "flavor_id", "network", powerState},
		},
		Credentials: func(dir string) string { return cloudsFileFound(CloudsFile(dir)) },
		Advice: "put its entry into clouds.yaml, in the cluster directory or where OpenStack's client looks; an " +
			"application credential is best",
		Variables: func(dir string) map[string]string {
			if file := CloudsFile(dir); file != "" {
				return map[string]string{"OS_CLIENT_CONFIG_FILE": file}
			}
			return nil
		},
		Commands: reconfigure.CloudCommands{
			Remove: "openstack server delete ", RemovePort: "openstack port delete ",
			Start: map[reconfigure.ServerStatus]string{
				reconfigure.ServerStopped: "openstack server start ", reconfigure.ServerPaused: "openstack server unpause ",
				reconfigure.ServerSuspended: "openstack server resume ", reconfigure.ServerShelved: "openstack server unshelve ",
				reconfigure.ServerOffloaded: "openstack server unshelve ",
			},
		},
	}
}

// Open logs in to the cloud of an access.
func Open(ctx context.Context, access reconfigure.Access) (*Client, error) {
	return New(ctx, config(access))
}

// Check returns an error if the cloud of an access is missing in the file of clouds. It does not ask the cloud.
func Check(access reconfigure.Access) error { return Configured(config(access)) }

func config(access reconfigure.Access) Config {
	return Config{
		Cloud: access.Cloud, CloudsFile: CloudsFile(access.Dir), Cluster: access.Cluster, Identity: access.Identity,
	}
}

// CloudsFile returns the clouds.yaml of a cluster directory; empty if it has none: then the usual places are
// searched.
func CloudsFile(dir string) string {
	if file := filepath.Join(dir, "clouds.yaml"); os.Getenv("OS_CLIENT_CONFIG_FILE") == "" && exists(file) {
		return file
	}
	return ""
}

// cloudsFileFound returns the clouds.yaml to use: the named one, or the first one where OpenStack's client looks.
func cloudsFileFound(named string) string {
	candidates := []string{named, os.Getenv("OS_CLIENT_CONFIG_FILE"), "clouds.yaml"}
	if dir, err := os.UserConfigDir(); err == nil {
		candidates = append(candidates, filepath.Join(dir, "openstack", "clouds.yaml"))
	}
	for _, file := range append(candidates, "/etc/openstack/clouds.yaml") {
		if file != "" && exists(file) {
			return file
		}
	}
	return ""
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// made reads the attributes of an instance in Terraform's state. The provider's access_ip_v4 may be a floating IP.
func made(attributes map[string]any) reconfigure.Made {
	metadata, _ := attributes["metadata"].(map[string]any)
	network := firstNetwork(attributes)
	return reconfigure.Made{
		Spec: reconfigure.Spec{
			Group: text(metadata[groupKey]), ImageID: text(attributes["image_id"]),
			FlavorID: text(attributes["flavor_id"]), NetworkID: text(network["uuid"]),
			Power: power(text(attributes[powerState])),
		},
		Address: text(network["fixed_ip_v4"]), Port: text(network["port"]),
	}
}

// power returns the power state of an instance in the form of the map of nodes. The provider has Nova's status there,
// in lower case.
func power(status string) reconfigure.Power {
	switch status {
	case string(reconfigure.PowerOff):
		return reconfigure.PowerOff
	case string(reconfigure.Shelved), "shelved":
		return reconfigure.Shelved
	}
	return ""
}

// finish adds the attributes of the network that Terraform would add with its next refresh.
func finish(attributes map[string]any, server reconfigure.Server, networkID string) {
	network := firstNetwork(attributes)
	if network == nil {
		return
	}
	for name, value := range map[string]string{
		"fixed_ip_v4": server.Address, "uuid": networkID, "port": server.PortID,
	} {
		if value != "" {
			network[name] = cmp.Or(text(network[name]), value)
		}
	}
}

// firstNetwork returns the attributes of an instance for the cluster's network.
func firstNetwork(attributes map[string]any) map[string]any {
	networks, _ := attributes["network"].([]any)
	if len(networks) == 0 {
		return nil
	}
	first, _ := networks[0].(map[string]any)
	return first
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// providerClass returns the class of an error of Terraform's provider.
func providerClass(words string) reconfigure.Class {
	class := answerClass(0, words)
	if class == reconfigure.ClassOther && deleting.MatchString(words) {
		return reconfigure.ClassUnknown
	}
	return class
}

// deleting matches the provider's error for a server that Nova still deletes: the provider does not wait for one in
// ERROR or BUILD.
var deleting = regexp.MustCompile(`Error waiting for instance \(\S+\) to Delete:`)
