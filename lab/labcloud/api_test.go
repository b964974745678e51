package labcloud_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/quotasets"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/tags"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

func TestCloudsYAMLIsEnoughToLogIn(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName("lab"),
		clouds.WithCloudsYAML(strings.NewReader(string(f.cloud.CloudsYAML("lab", f.url)))))
	f.must(err)
	provider, err := config.NewProviderClient(t.Context(), auth, config.WithTLSConfig(tls))
	f.must(err)
	compute, err := openstack.NewComputeV2(provider, endpoint)
	f.must(err)
	_, err = limits.Get(t.Context(), compute, nil).Extract()
	f.must(err)
}

func TestOnlyTheUserOfTheProjectGetsAToken(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	good := gophercloud.AuthOptions{
		IdentityEndpoint: f.url + "/identity/v3", Username: "operator", Password: "secret",
		DomainName: "Default", TenantName: "lab",
	}
	for name, spoil := range map[string]func(*gophercloud.AuthOptions){
		"user":     func(o *gophercloud.AuthOptions) { o.Username = "somebody" },
		"password": func(o *gophercloud.AuthOptions) { o.Password = "wrong" },
		"project":  func(o *gophercloud.AuthOptions) { o.TenantName = "other" },
		"domain":   func(o *gophercloud.AuthOptions) { o.DomainName = "other" },
	} {
		bad := good
		spoil(&bad)
		_, err := openstack.AuthenticatedClient(t.Context(), bad)
		if !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
			t.Errorf("wrong %s: %v", name, err)
		}
	}
}

func TestTokensExpireAndCanBeRevoked(t *testing.T) {
	story(t, &probe{}, labcloud.Timings{Token: time.Minute}, func(p *player) {
		time.Sleep(time.Minute)
		if got := p.play(step{recorded: "expired", method: "GET",
			path: "/compute/v2.1/servers"}); got.Code != http.StatusUnauthorized {
			t.Errorf("an expired token is answered with %d", got.Code)
		}
	})

	f := newFixture(t, configuration(), labcloud.Null{})
	identity, err := openstack.NewIdentityV3(f.compute.ProviderClient, gophercloud.EndpointOpts{})
	f.must(err)
	token := f.compute.Token()
	valid, err := tokens.Validate(t.Context(), identity, token)
	if err != nil || !valid {
		t.Fatalf("the token is valid: %v, %v", valid, err)
	}
	f.must(tokens.Revoke(t.Context(), identity, token).Err)
	if response, _ := f.send("GET", "/compute/v2.1/servers", "", ""); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a revoked token is answered with %d", response.StatusCode)
	}
}

func TestMicroversionIsNegotiated(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	for asked, want := range map[string]string{"": "2.1", "2.47": "2.47", "latest": "2.93"} {
		response, _ := f.send("GET", "/compute/v2.1/servers", asked, "")
		if got := response.Header.Get("X-OpenStack-Nova-API-Version"); got != want {
			t.Errorf("asked for %q: got %s, want %s", asked, got, want)
		}
	}
	for _, asked := range []string{"2.94", "2.0", "3.1"} {
		if response, text := f.send("GET", "/compute/v2.1/servers", asked,
			""); response.StatusCode != http.StatusNotAcceptable {
			t.Errorf("asked for %q: %d %s", asked, response.StatusCode, text)
		}
	}
}

// TestServerShowsWhatItsMicroversionHas checks the keys of a server in the microversions that add and remove them.
func TestServerShowsWhatItsMicroversionHas(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	s := f.running("n1")
	for _, c := range []struct {
		key   string
		since string
		not   string
	}{
		{`"locked"`, "2.9", "2.8"}, {`"description"`, "2.19", "2.18"}, {`"tags"`, "2.26", "2.25"},
		{`"original_name"`, "2.47", "2.46"}, {`"trusted_image_certificates"`, "2.63", "2.62"},
		{`"server_groups"`, "2.71", "2.70"}, {`"locked_reason"`, "2.73", "2.72"},
		{`"OS-EXT-SRV-ATTR:hostname"`, "2.90", "2.89"},
	} {
		_, with := f.send("GET", "/compute/v2.1/servers/"+s.ID, c.since, "")
		_, without := f.send("GET", "/compute/v2.1/servers/"+s.ID, c.not, "")
		if !strings.Contains(with, c.key) || strings.Contains(without, c.key) {
			t.Errorf("%s belongs to %s and later:\n%s\n%s", c.key, c.since, with, without)
		}
	}
}

func TestFlavors(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	big := f.flavor("big")
	if big.VCPUs != 8 || big.RAM != 16384 || big.Disk != 1 {
		t.Errorf("flavor big: %+v", big)
	}
	specs, err := flavors.ListExtraSpecs(t.Context(), f.compute, big.ID).Extract()
	f.must(err)
	if specs["hw:cpu_policy"] != "dedicated" {
		t.Errorf("extra specs: %v", specs)
	}
	_, err = flavors.Get(t.Context(), f.compute, "nope").Extract()
	f.wantCode(err, http.StatusNotFound, "Flavor nope could not be found.")
	pages, err := flavors.ListDetail(f.compute, flavors.ListOpts{MinRAM: 1000}).AllPages(t.Context())
	f.must(err)
	if found, _ := flavors.ExtractFlavors(pages); len(found) != 1 {
		t.Errorf("flavors with at least 1000 MiB: %v", found)
	}
	zones, err := availabilityzones.List(f.compute).AllPages(t.Context())
	f.must(err)
	if all, _ := availabilityzones.ExtractAvailabilityZones(zones); len(all) != 1 || all[0].ZoneName != "nova" {
		t.Errorf("availability zones: %v", all)
	}
}

func TestImages(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	f.must(f.cloud.AddImage("0b7a9f3e-6f3c-4d55-8a0e-1f0c1f1f1f1f", "node-v1"))
	if err := f.cloud.AddImage(imageV1, "again"); err == nil {
		t.Error("an id was given to two images")
	}
	byName := func(name string) []images.Image {
		pages, err := images.List(f.images, images.ListOpts{Name: name}).AllPages(t.Context())
		f.must(err)
		found, err := images.ExtractImages(pages)
		f.must(err)
		return found
	}
	if found := byName("node-v1"); len(found) != 2 || found[0].ID == imageV1 {
		t.Errorf("two images of a name, the newest first: %v", found)
	}
	if found := byName("node"); len(found) != 0 {
		t.Errorf("a part of a name finds %v", found)
	}
	for i := range 30 {
		f.must(f.cloud.AddImage(fmt.Sprintf("image-%d", i), "many"))
	}
	if found := byName("many"); len(found) != 30 {
		t.Errorf("over two pages: %d images", len(found))
	}
	f.must(images.Delete(t.Context(), f.images, imageV1).ExtractErr())
	_, err := images.Get(t.Context(), f.images, imageV1).Extract()
	f.wantCode(err, http.StatusNotFound, "<h1>404 Not Found</h1>")
}

func TestKeypairs(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	create := func(name, key string) error {
		_, err := keypairs.Create(t.Context(), f.compute, keypairs.CreateOpts{Name: name, PublicKey: key}).Extract()
		return err
	}
	f.must(create("admin", publicKey))
	f.wantCode(create("admin", publicKey), http.StatusConflict, "Key pair 'admin' already exists.")
	f.wantCode(create("other", "no key"), http.StatusBadRequest, "Keypair data is invalid")
	f.wantCode(create("other", ""), http.StatusBadRequest, "'public_key' is a required property")
	got, err := keypairs.Get(t.Context(), f.compute, "admin", nil).Extract()
	f.must(err)
	if got.PublicKey != publicKey || len(got.Fingerprint) != 47 {
		t.Errorf("keypair: %+v", got)
	}
	f.must(keypairs.Delete(t.Context(), f.compute, "admin", nil).ExtractErr())
	_, err = keypairs.Get(t.Context(), f.compute, "admin", nil).Extract()
	f.wantCode(err, http.StatusNotFound, "Keypair admin not found")
}

func TestServerListFiltersAndPages(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	for i := range 5 {
		f.running(fmt.Sprintf("n%d", i))
	}
	other, err := f.create("other")
	f.must(err)
	f.must(tags.Add(t.Context(), f.compute, other.ID, "odd").ExtractErr())
	names := func(opts servers.ListOpts) []string {
		pages, err := servers.List(f.compute, opts).AllPages(t.Context())
		f.must(err)
		found, err := servers.ExtractServers(pages)
		f.must(err)
		var names []string
		for _, s := range found {
			names = append(names, s.Name)
		}
		return names
	}
	newestFirst := []string{"other", "n4", "n3", "n2", "n1", "n0"}
	for _, c := range []struct {
		name string
		opts servers.ListOpts
		want []string
	}{
		{"everything", servers.ListOpts{}, newestFirst},
		{"in pages of two", servers.ListOpts{Limit: 2}, newestFirst},
		{"name is a regular expression", servers.ListOpts{Name: "^n[12]$"}, []string{"n2", "n1"}},
		{"status", servers.ListOpts{Status: "error"}, nil},
		{"image", servers.ListOpts{Image: imageV2}, nil},
		{"flavor", servers.ListOpts{Flavor: "flavor-small", Limit: 3}, newestFirst},
		{"tags", servers.ListOpts{Tags: "odd"}, []string{"other"}},
		{"without a tag", servers.ListOpts{NotTags: "odd", Name: "^(n4)?(other)?$"}, []string{"n4"}},
		{"alternatives of names match nothing", servers.ListOpts{Name: "^(n4|other)$"}, nil},
		{"names in either case", servers.ListOpts{Name: "^N4$"}, []string{"n4"}},
		{"address", servers.ListOpts{IP: "10.60.0.2"}, []string{"n0"}},
	} {
		if diff := cmp.Diff(c.want, names(c.opts)); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
	for _, query := range []string{"?host=x", "?marker=" + absent, "?limit=x", "?name=("} {
		if response, text := f.send("GET", "/compute/v2.1/servers/detail"+query, "",
			""); response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, response.StatusCode, text)
		}
	}
}

func TestServerUpdateMetadataAndTags(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	s, ctx := f.running("n1"), t.Context()
	updated, err := servers.Update(ctx, f.compute, s.ID, servers.UpdateOpts{Name: "renamed"}).Extract()
	f.must(err)
	if updated.Name != "renamed" {
		t.Errorf("name: %s", updated.Name)
	}
	_, err = servers.UpdateMetadata(ctx, f.compute, s.ID, servers.MetadataOpts{"a": "1", "b": "2"}).Extract()
	f.must(err)
	_, err = servers.CreateMetadatum(ctx, f.compute, s.ID, servers.MetadatumOpts{"c": "3"}).Extract()
	f.must(err)
	f.must(servers.DeleteMetadatum(ctx, f.compute, s.ID, "a").ExtractErr())
	_, err = servers.Metadatum(ctx, f.compute, s.ID, "a").Extract()
	f.wantCode(err, http.StatusNotFound, "Metadata item was not found")
	metadata, err := servers.Metadata(ctx, f.compute, s.ID).Extract()
	f.must(err)
	if diff := cmp.Diff(map[string]string{"b": "2", "c": "3"}, metadata); diff != "" {
		t.Errorf("metadata:\n%s", diff)
	}
	_, err = servers.ResetMetadata(ctx, f.compute, s.ID, servers.MetadataOpts{"z": "9"}).Extract()
	f.must(err)
	if metadata, _ = servers.Metadata(ctx, f.compute, s.ID).Extract(); !maps.Equal(metadata,
		map[string]string{"z": "9"}) {
		t.Errorf("metadata after its replacement: %v", metadata)
	}

	_, err = tags.ReplaceAll(ctx, f.compute, s.ID, tags.ReplaceAllOpts{Tags: []string{"b", "a"}}).Extract()
	f.must(err)
	f.must(tags.Add(ctx, f.compute, s.ID, "c").ExtractErr())
	f.must(tags.Delete(ctx, f.compute, s.ID, "a").ExtractErr())
	f.wantCode(tags.Delete(ctx, f.compute, s.ID, "a").ExtractErr(), http.StatusNotFound, "has no tag")
	if has, err := tags.Check(ctx, f.compute, s.ID, "b").Extract(); err != nil || !has {
		t.Errorf("tag b: %v, %v", has, err)
	}
	if all, _ := tags.List(ctx, f.compute, s.ID).Extract(); !slices.Equal(all, []string{"b", "c"}) {
		t.Errorf("tags: %v", all)
	}
	f.must(tags.DeleteAll(ctx, f.compute, s.ID).ExtractErr())
	if response, _ := f.send("GET", "/compute/v2.1/servers/"+s.ID+"/tags", "2.25",
		""); response.StatusCode != http.StatusNotFound {
		t.Errorf("tags at 2.25: %d", response.StatusCode)
	}
}

func TestServerPartsAndHistory(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	s, ctx := f.running("n1"), t.Context()
	pages, err := attachinterfaces.List(f.compute, s.ID).AllPages(ctx)
	f.must(err)
	interfaces, err := attachinterfaces.ExtractInterfaces(pages)
	f.must(err)
	if len(interfaces) != 1 || interfaces[0].FixedIPs[0].IPAddress != "10.60.0.2" {
		t.Errorf("interfaces: %+v", interfaces)
	}
	one, err := attachinterfaces.Get(ctx, f.compute, s.ID, interfaces[0].PortID).Extract()
	if err != nil || one.MACAddr != interfaces[0].MACAddr {
		t.Errorf("one interface: %+v, %v", one, err)
	}
	volumes, err := volumeattach.List(f.compute, s.ID).AllPages(ctx)
	f.must(err)
	if empty, _ := volumes.IsEmpty(); !empty {
		t.Error("the server has volumes")
	}
	text, err := servers.ShowConsoleOutput(ctx, f.compute, s.ID, servers.ShowConsoleOutputOpts{Length: 5}).Extract()
	if err != nil || !strings.Contains(text, "nothing behind it") {
		t.Errorf("console: %q, %v", text, err)
	}
	f.must(servers.Stop(ctx, f.compute, s.ID).ExtractErr())
	f.await(s.ID, "SHUTOFF")
	history, err := instanceactions.List(f.compute, s.ID, nil).AllPages(ctx)
	f.must(err)
	actions, err := instanceactions.ExtractInstanceActions(history)
	f.must(err)
	if len(actions) != 2 || actions[0].Action != "stop" || actions[1].Action != "create" {
		t.Errorf("history, newest first: %+v", actions)
	}
	if detail, err := instanceactions.Get(ctx, f.compute, s.ID, actions[1].RequestID).Extract(); err != nil ||
		detail.Action != "create" {
		t.Errorf("one action: %+v, %v", detail, err)
	}
}

func TestSnapshotBecomesAnImageThatServersAreMadeFrom(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	s, ctx := f.running("n1"), t.Context()
	id, err := servers.CreateImage(ctx, f.compute, s.ID, servers.CreateImageOpts{Name: "snap"}).ExtractImageID()
	f.must(err)
	f.compute.Microversion = "2.44"
	older, err := servers.CreateImage(ctx, f.compute, f.running("n2").ID,
		servers.CreateImageOpts{Name: "older"}).ExtractImageID()
	f.must(err)
	f.compute.Microversion = "2.79"
	for _, image := range []string{id, older} {
		f.eventually("image is active", func() bool {
			i, err := images.Get(ctx, f.images, image).Extract()
			return err == nil && i.Status == images.ImageStatusActive
		})
	}
	f.await(s.ID, "ACTIVE")
	_, err = servers.Rebuild(ctx, f.compute, s.ID, servers.RebuildOpts{ImageRef: id}).Extract()
	f.must(err)
	if got := f.await(s.ID, "ACTIVE"); got.Image["id"] != id {
		t.Errorf("the server's image is %v, want %s", got.Image["id"], id)
	}
}

func TestLockForbidsChanges(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	s, ctx := f.running("n1"), t.Context()
	f.must(servers.Lock(ctx, f.compute, s.ID).ExtractErr())
	f.wantCode(servers.Delete(ctx, f.compute, s.ID).ExtractErr(), http.StatusConflict, "is locked")
	f.wantCode(servers.Stop(ctx, f.compute, s.ID).ExtractErr(), http.StatusConflict, "is locked")
	f.must(servers.Unlock(ctx, f.compute, s.ID).ExtractErr())
	f.must(servers.ForceDelete(ctx, f.compute, s.ID).ExtractErr())
	f.awaitGone(s.ID)
}

func TestActionsAreRefusedInTheWrongState(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	s, ctx := f.running("n1"), t.Context()
	f.wantCode(servers.Start(ctx, f.compute, s.ID).ExtractErr(), http.StatusConflict, "while it is in vm_state active")
	f.wantCode(servers.ConfirmResize(ctx, f.compute, s.ID).ExtractErr(), http.StatusConflict, "Cannot 'confirmResize'")
	f.wantCode(servers.Resize(ctx, f.compute, s.ID, servers.ResizeOpts{FlavorRef: "flavor-small"}).ExtractErr(),
		http.StatusBadRequest, "must change flavor")
	f.wantCode(servers.Reboot(ctx, f.compute, absent, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr(),
		http.StatusNotFound, "could not be found")
	if response, text := f.send("POST", "/compute/v2.1/servers/"+s.ID+"/action", "",
		`{"dance":null}`); response.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown action: %d %s", response.StatusCode, text)
	}
}

func TestQuotaAndLimitsFollowTheServers(t *testing.T) {
	cfg := configuration()
	cfg.Quotas = labcloud.Quotas{Instances: 2, Cores: 9}
	f := newFixture(t, cfg, labcloud.Null{})
	ctx := t.Context()
	s := f.running("n1")
	f.must(servers.Resize(ctx, f.compute, s.ID, servers.ResizeOpts{FlavorRef: "flavor-big"}).ExtractErr())
	f.await(s.ID, "VERIFY_RESIZE")
	f.must(servers.ConfirmResize(ctx, f.compute, s.ID).ExtractErr())
	second := f.running("n2")
	f.wantCode(servers.Resize(ctx, f.compute, second.ID, servers.ResizeOpts{FlavorRef: "flavor-big"}).ExtractErr(),
		http.StatusForbidden, "Quota exceeded for cores: Requested 7, but already used 9 of 9 cores")
	_, err := f.create("n3")
	f.wantCode(err, http.StatusForbidden,
		"Quota exceeded for cores, instances: Requested 1, 1, but already used 9, 2 of 9, 2 cores, instances")
	got, err := limits.Get(ctx, f.compute, nil).Extract()
	f.must(err)
	if a := got.Absolute; a.TotalCoresUsed != 9 || a.TotalInstancesUsed != 2 || a.MaxTotalCores != 9 ||
		a.TotalRAMUsed != 16384+512 {
		t.Errorf("limits: %+v", a)
	}
	project := s.TenantID
	more := 100
	_, err = quotasets.Update(ctx, f.compute, project, quotasets.UpdateOpts{Cores: &more, Instances: &more}).Extract()
	f.must(err)
	_, err = f.create("n3")
	f.must(err)
	detail, err := quotasets.GetDetail(ctx, f.compute, project).Extract()
	f.must(err)
	if detail.Instances.Limit != 100 || detail.Instances.InUse != 3 {
		t.Errorf("quota: %+v", detail.Instances)
	}
	f.must(servers.Delete(ctx, f.compute, s.ID).ExtractErr())
	f.awaitGone(s.ID)
	if got, _ = limits.Get(ctx, f.compute, nil).Extract(); got.Absolute.TotalCoresUsed != 2 {
		t.Errorf("cores after the deletion: %d", got.Absolute.TotalCoresUsed)
	}
}

// TestUnknownThingsAreRefused checks that unknown calls, filters and fields are errors.
func TestUnknownThingsAreRefused(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	server := func(more string) string {
		return fmt.Sprintf(`{"server":{"name":"n1","imageRef":%q,"flavorRef":"flavor-small","networks":"none"%s}}`,
			imageV1, more)
	}
	for _, c := range []struct {
		method, path, version, body string
		code                        int
	}{
		{"GET", "/compute/v2.1/os-services", "", "", http.StatusNotImplemented},
		{"GET", "/volume/v3/volumes", "", "", http.StatusNotImplemented},
		{"POST", "/compute/v2.1/servers", "2.79", server(`,"block_device_mapping_v2":[]`), http.StatusBadRequest},
		{"POST", "/compute/v2.1/servers", "2.79", server(`,"min_count":2`), http.StatusBadRequest},
		{"POST", "/compute/v2.1/servers", "2.79", server(`,"availability_zone":"moon"`), http.StatusBadRequest},
		{"POST", "/compute/v2.1/servers", "2.79", server(`,"user_data":"???"`), http.StatusBadRequest},
		{"POST", "/compute/v2.1/servers", "2.36", server(``), http.StatusBadRequest},
		{"POST", "/compute/v2.1/servers", "2.51", server(`,"tags":["a"]`), http.StatusBadRequest},
		{"POST", "/compute/v2.1/servers", "2.79", `{"server":`, http.StatusBadRequest},
		{"POST", "/network/v2.0/ports", "", `{"port":{"network_id":"x","colour":"red"}}`, http.StatusBadRequest},
		{"GET", "/network/v2.0/ports?colour=red", "", "", http.StatusBadRequest},
		{"GET", "/image/v2/images?colour=red", "", "", http.StatusBadRequest},
		{"GET", "/compute/v2.1/os-quota-sets/other", "", "", http.StatusNotFound},
	} {
		if c.path == "/network/v2.0/ports?colour=red" {
			f.running("has-a-port")
		}
		if response, text := f.send(c.method, c.path, c.version, c.body); response.StatusCode != c.code {
			t.Errorf("%s %s at %q: %d, want %d: %s", c.method, c.path, c.version, response.StatusCode, c.code, text)
		}
	}
}

func TestConfigurationMistakesAreReportedTogether(t *testing.T) {
	cfg := configuration()
	cfg.Password = ""
	cfg.Flavors[0].VCPUs = 0
	cfg.Networks[0].First = cfg.Networks[1].CIDR.Addr()
	_, err := labcloud.New(cfg, labcloud.Null{})
	if err == nil {
		t.Fatal("the configuration was taken")
	}
	for _, part := range []string{"password", `flavor "small"`, `network "cluster"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not mention %s: %s", part, err)
		}
	}
	twice := configuration()
	twice.Networks = append(twice.Networks, twice.Networks[0])
	if _, err := labcloud.New(twice, labcloud.Null{}); err == nil {
		t.Error("two networks of one name were taken")
	}
}
