package openstack

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestResolve(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	networks, err := l.client.findNetwork(t.Context(), "cluster")
	if err != nil {
		t.Fatal(err)
	}
	s := l.create("node1", "eiffel", "ACTIVE")
	opts := servers.CreateImageOpts{Name: "unfinished"}
	if err := servers.CreateImage(t.Context(), l.client.compute, s.ID, opts).Err; err != nil {
		t.Fatal(err)
	}
	unfinished, notReady := l.client.findImage(t.Context(), "unfinished")
	if notReady == nil {
		t.Fatalf("an image that is not ready was found: %v", unfinished)
	}
	all := reconfigure.Resolved{ImageID: imageV2, FlavorID: "42", NetworkID: networks[0]}
	hints := reconfigure.MakeTexts(map[string]string{"reservation": "r"})
	group, err := servergroups.Create(t.Context(), l.client.compute,
		servergroups.CreateOpts{Name: "apart", Policy: "anti-affinity"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	placed := all
	placed.Placement = reconfigure.Placement{Zone: "nova", ServerGroup: group.ID, Hints: hints}
	missing := func(why string) reconfigure.Resolved {
		return reconfigure.Resolved{Err: why, Class: reconfigure.ClassMissing}
	}
	for name, test := range map[string]struct {
		source reconfigure.Source
		want   reconfigure.Resolved
	}{
		"names": {reconfigure.Source{Image: "node-v2", Flavor: "small", Network: "cluster"}, all},
		"ids":   {reconfigure.Source{Image: imageV2, Flavor: "42", Network: networks[0]}, all},
		"placed": {
			reconfigure.Source{Image: "node-v2", Flavor: "small", Network: "cluster",
				Placement: reconfigure.Placement{Zone: "nova", ServerGroup: "apart", Hints: hints}},
			placed,
		},
		"placed by id": {
			reconfigure.Source{Image: "node-v2", Flavor: "small", Network: "cluster",
				Placement: reconfigure.Placement{ServerGroup: placed.ServerGroup}},
			reconfigure.Resolved{ImageID: imageV2, FlavorID: "42", NetworkID: networks[0],
				Placement: reconfigure.Placement{ServerGroup: placed.ServerGroup}},
		},
		"no such place": {
			reconfigure.Source{Image: "node-v2", Flavor: "small", Network: "cluster",
				Placement: reconfigure.Placement{Zone: "moon", ServerGroup: "close"}},
			missing(`availability zone "moon" in cloud "here": not found; the cloud has nova; ` +
				`server group "close" in cloud "here": not found`),
		},
		"ambiguous": {
			reconfigure.Source{Image: "twin", Flavor: "small", Network: "cluster"},
			missing(`image "twin" in cloud "here": the name is ambiguous, use one of the ids ` + twinA + ", " + twinB),
		},
		"nothing there": {
			reconfigure.Source{Image: absent, Flavor: "tiny", Network: absent},
			missing(`image "` + absent + `" in cloud "here": not found; flavor "tiny" in cloud "here": not found; ` +
				`network "` + absent + `" in cloud "here": not found`),
		},
		"in another case": {
			reconfigure.Source{Image: "NODE-V2", Flavor: "SMALL", Network: "CLUSTER"},
			missing(`image "NODE-V2" in cloud "here": not found; flavor "SMALL" in cloud "here": not found; ` +
				`network "CLUSTER" in cloud "here": not found`),
		},
		"not ready": {
			reconfigure.Source{Image: "unfinished", Flavor: "42", Network: "cluster"},
			missing(`image "unfinished" in cloud "here": ` + notReady.Error()),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, l.client.Resolve(t.Context(), test.source)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResolveFollowsANameToANewImage(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	source := reconfigure.Source{Image: "next", Flavor: "small", Network: "cluster"}
	if got := l.client.Resolve(t.Context(), source); got.Err == "" {
		t.Errorf("%+v", got)
	}
	if err := l.cloud.AddImage(absent, "next"); err != nil {
		t.Fatal(err)
	}
	if got := l.client.Resolve(t.Context(), source); got.ImageID != absent {
		t.Errorf("%+v", got)
	}
}

func TestResolveSaysWhatTheCloudSays(t *testing.T) {
	for kind, class := range map[labcloud.Kind]reconfigure.Class{
		labcloud.ServerError: reconfigure.ClassCloud, labcloud.RateLimited: reconfigure.ClassRateLimit,
		labcloud.LostAnswer: reconfigure.ClassCloud,
	} {
		t.Run(string(kind), func(t *testing.T) {
			l := newLab(t, labcloud.Null{})
			l.order(kind, "GET images", 100)
			// A missing network says nothing about the image.
			got := l.client.Resolve(t.Context(), reconfigure.Source{Image: "node-v1", Flavor: "small", Network: "nothing"})
			if got.Err == "" || got.FlavorID != "" || got.Class != class {
				t.Errorf("%+v", got)
			}
		})
	}
}
