package labcloud

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// usage has the amounts of the quota that servers use; RAM is in MiB.
type usage struct{ instances, cores, ram int }

// takes returns the usage of one server of this flavor.
func (f Flavor) takes() usage { return usage{instances: 1, cores: f.VCPUs, ram: f.RAM} }

func (u usage) plus(v usage) usage {
	return usage{u.instances + v.instances, u.cores + v.cores, u.ram + v.ram}
}

func (u usage) minus(v usage) usage {
	return usage{u.instances - v.instances, u.cores - v.cores, u.ram - v.ram}
}

// byName returns the amounts by the names of the quota's resources.
func (u usage) byName() map[string]int {
	return map[string]int{"instances": u.instances, "cores": u.cores, "ram": u.ram}
}

// sets returns the limits in the API's form, including those that the lab does not enforce.
func (q Quotas) sets() (computeSet, networkSet map[string]int) {
	limit := func(n int) int { return cmp.Or(n, -1) }
	computeSet = map[string]int{
		"instances": limit(q.Instances), "cores": limit(q.Cores), "ram": limit(q.RAM), "key_pairs": limit(q.KeyPairs),
		"fixed_ips": -1, "floating_ips": -1, "security_groups": -1, "security_group_rules": -1,
		"injected_files": -1, "injected_file_content_bytes": 10240, "injected_file_path_bytes": 255,
		"metadata_items": -1, "server_groups": -1, "server_group_members": -1,
	}
	networkSet = map[string]int{
		"port": limit(q.Ports), "floatingip": limit(q.FloatingIPs),
		"security_group": limit(q.SecurityGroups), "security_group_rule": limit(q.SecurityGroupRules),
		"network": -1, "subnet": -1, "router": -1, "subnetpool": -1, "rbac_policy": -1,
	}
	return computeSet, networkSet
}

// SetQuotas changes all of the project's limits, as its administrator could by the API. Existing resources above a
// limit stay.
func (c *Cloud) SetQuotas(q Quotas) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.computeQuota, c.networkQuota = q.sets()
}

// checkQuota returns an error if the project's quota would be exceeded. Like Nova, it names all resources that would
// exceed it, with their numbers.
func checkQuota(limits map[string]int, used, more usage) error {
	have, want := used.byName(), more.byName()
	var names, asked, taken, most []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if limit := limits[name]; limit >= 0 && want[name] > 0 && have[name]+want[name] > limit {
			names, asked = append(names, name), append(asked, strconv.Itoa(want[name]))
			taken, most = append(taken, strconv.Itoa(have[name])), append(most, strconv.Itoa(limit))
		}
	}
	if len(names) == 0 {
		return nil
	}
	list := func(parts []string) string { return strings.Join(parts, ", ") }
	return forbidden("Quota exceeded for %s: Requested %s, but already used %s of %s %[1]s", list(names), list(asked),
		list(taken), list(most))
}

func quotaExceeded(names string, asked, used, limit int) error {
	return forbidden("Quota exceeded for %s: Requested %d, but already used %d of %d %s", names,
		asked, used, limit, names)
}

func (c *Cloud) quotaRoutes() []route {
	return []route{
		{compute, "GET /compute/v2.1/limits", false, c.showLimits},
		{compute, "GET /compute/v2.1/os-quota-sets/{id}", false, c.showComputeQuota},
		{compute, "GET /compute/v2.1/os-quota-sets/{id}/detail", false, c.showComputeQuotaDetail},
		{compute, "PUT /compute/v2.1/os-quota-sets/{id}", false, c.setComputeQuota},
		{network, "GET /network/v2.0/quotas/{id}", false, func(r *request) (reply, error) {
			return ok(object{"quota": maps.Clone(c.networkQuota)}), c.checkProject(r)
		}},
		{network, "GET /network/v2.0/quotas/{id}/details.json", false, c.showNetworkQuotaDetail},
		{network, "PUT /network/v2.0/quotas/{id}", false, c.setNetworkQuota},
	}
}

// checkProject rejects a path with any other project.
func (c *Cloud) checkProject(r *request) error {
	if id := r.PathValue("id"); id != c.projectID {
		return notFound("", "Project ID %s is not a valid project.", id)
	}
	return nil
}

// visibleQuota returns the limits that a microversion shows: 2.36 dropped those that Neutron enforces, 2.57 those for
// injected files.
func visibleQuota(limits map[string]int, v microversion) map[string]int {
	visible := maps.Clone(limits)
	maps.DeleteFunc(visible, func(name string, _ int) bool {
		byNeutron := slices.Contains([]string{"fixed_ips", "floating_ips", "security_groups", "security_group_rules"},
			name)
		return byNeutron && v >= 36 || strings.HasPrefix(name, "injected_") && v >= 57
	})
	return visible
}

func (c *Cloud) showComputeQuota(r *request) (reply, error) {
	set := object{"id": c.projectID}
	for name, limit := range visibleQuota(c.computeQuota, r.version) {
		set[name] = limit
	}
	return ok(object{"quota_set": set}), c.checkProject(r)
}

func (c *Cloud) showComputeQuotaDetail(r *request) (reply, error) {
	used := c.used.byName()
	set := object{"id": c.projectID}
	for name, limit := range visibleQuota(c.computeQuota, r.version) {
		set[name] = object{"limit": limit, "in_use": used[name], "reserved": 0}
	}
	return ok(object{"quota_set": set}), c.checkProject(r)
}

// setQuota changes limits and rejects unknown ones.
func setQuota(limits, change map[string]int) error {
	for name := range change {
		if _, known := limits[name]; !known {
			return badRequest("Additional properties are not allowed ('%s' was unexpected)", name)
		}
	}
	maps.Copy(limits, change)
	return nil
}

func (c *Cloud) setComputeQuota(r *request) (reply, error) {
	var ask struct {
		Set map[string]int `json:"quota_set"`
	}
	if err := cmp.Or(c.checkProject(r), r.decode(&ask)); err != nil {
		return reply{}, err
	}
	if err := setQuota(c.computeQuota, ask.Set); err != nil {
		return reply{}, err
	}
	return ok(object{"quota_set": visibleQuota(c.computeQuota, r.version)}), nil
}

func (c *Cloud) setNetworkQuota(r *request) (reply, error) {
	var ask struct {
		Quota map[string]int `json:"quota"`
	}
	if err := cmp.Or(c.checkProject(r), r.decode(&ask)); err != nil {
		return reply{}, err
	}
	if err := setQuota(c.networkQuota, ask.Quota); err != nil {
		return reply{}, err
	}
	return ok(object{"quota": maps.Clone(c.networkQuota)}), nil
}

// networkUsage returns the number of resources of each kind for which Neutron has a quota.
func (c *Cloud) networkUsage() map[string]int {
	return map[string]int{
		"port": c.ports.size(), "floatingip": c.floatingIPs.size(),
		"security_group": c.securityGroups.size(), "security_group_rule": c.rules.size(),
		"network": c.networks.size(), "subnet": c.networks.size(),
	}
}

func (c *Cloud) showNetworkQuotaDetail(r *request) (reply, error) {
	used := c.networkUsage()
	set := object{}
	for name, limit := range c.networkQuota {
		set[name] = object{"limit": limit, "used": used[name], "reserved": 0}
	}
	return ok(object{"quota": set}), c.checkProject(r)
}

// checkNetworkQuota returns an error if the quota does not allow another resource of this kind.
func (c *Cloud) checkNetworkQuota(resource string) error {
	if limit := c.networkQuota[resource]; limit >= 0 && c.networkUsage()[resource] >= limit {
		return conflict("OverQuota", "Quota exceeded for resources: ['%s'].", resource)
	}
	return nil
}

// showLimits answers with limits and usage together. Later microversions omit those that Nova does not enforce itself.
func (c *Cloud) showLimits(r *request) (reply, error) {
	limits := c.computeQuota
	absolute := object{
		"maxTotalInstances": limits["instances"], "maxTotalCores": limits["cores"], "maxTotalRAMSize": limits["ram"],
		"maxTotalKeypairs": limits["key_pairs"], "maxServerMeta": limits["metadata_items"],
		"maxServerGroups": limits["server_groups"], "maxServerGroupMembers": limits["server_group_members"],
		"totalRAMUsed": c.used.ram, "totalCoresUsed": c.used.cores, "totalInstancesUsed": c.used.instances,
		"totalServerGroupsUsed": 0,
	}
	if r.version < 36 {
		maps.Copy(absolute, object{
			"maxTotalFloatingIps": limits["floating_ips"], "maxSecurityGroups": limits["security_groups"],
			"maxSecurityGroupRules": limits["security_group_rules"],
			"totalFloatingIpsUsed":  0, "totalSecurityGroupsUsed": 0,
		})
	}
	if r.version < 39 {
		absolute["maxImageMeta"] = limits["metadata_items"]
	}
	if r.version < 57 {
		absolute["maxPersonality"] = limits["injected_files"]
		absolute["maxPersonalitySize"] = limits["injected_file_content_bytes"]
	}
	return ok(object{"limits": object{"rate": []object{}, "absolute": absolute}}), nil
}
