package labcloud

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// The routes to which other files refer.
const (
	createServerPattern = "POST /compute/v2.1/servers"
	createPortPattern   = "POST /network/v2.0/ports"
	actionPattern       = "POST /compute/v2.1/servers/{id}/action"
	rebuildLabel        = actionPattern + " rebuild"
)

// maxPage is the maximum page size of Nova and Glance; for more, a client must follow the links.
const maxPage = 1000

// server is one server. vm and task determine its status in Nova.
type server struct {
	id, name, description string
	flavor                Flavor
	// oldFlavor is the flavor to which an unconfirmed resize can be reverted.
	oldFlavor *Flavor
	// claimed is the server's usage of the quota: during a resize, that of the new flavor.
	claimed usage
	image   string
	keyName string
	// key is the public key itself, since a server keeps it when the key pair is deleted.
	key        string
	userData   []byte
	metadata   map[string]string
	tags       []string
	accessIPv4 string
	ports      []*port
	// zone is where the scheduler puts it, and group the id of its server group; empty: none.
	zone, group string
	hostID      string // of the host in the zone
	// placed reports whether the scheduler has found a host. Until then Nova shows no addresses.
	placed                     bool
	created, updated, launched time.Time

	vm           vmState
	beforeResize vmState
	task         string
	locked       bool
	lockedReason string
	fault        *serverFault
	build        buildFaults
	actions      []serverAction
	// operation is the current change, or the last one.
	operation *operation
}

// serverFault is the reason why a server is in ERROR.
type serverFault struct {
	code    int
	message string
	at      time.Time
}

// serverAction is one entry of a server's history.
type serverAction struct {
	name, requestID string
	at              time.Time
}

// touch marks a change.
func (s *server) touch() { s.updated = time.Now() }

// note adds an entry to the server's history.
func (s *server) note(r *request, action string) {
	s.actions = append(s.actions, serverAction{action, r.id, time.Now()})
	s.touch()
}

func (c *Cloud) serverRoutes() []route {
	const path = "/compute/v2.1/servers"
	return append([]route{
		{compute, "GET " + path, false, c.listServers},
		{compute, "GET " + path + "/detail", false, c.listServers},
		{compute, createServerPattern, false, c.createServer},
		{compute, "GET " + path + "/{id}", false, func(r *request) (reply, error) {
			s, err := c.findServer(r)
			if err != nil {
				return reply{}, err
			}
			return ok(object{"server": c.serverView(r, s, true)}), nil
		}},
		{compute, "PUT " + path + "/{id}", false, c.updateServer},
		{compute, "DELETE " + path + "/{id}", false, c.deleteServer},
		{compute, actionPattern, false, c.actOnServer},
	}, c.serverPartRoutes()...)
}

// findServer finds the server named in a path.
func (c *Cloud) findServer(r *request) (*server, error) {
	s, found := c.servers.get(r.PathValue("id"))
	if !found {
		return nil, notFound("", "Instance %s could not be found.", r.PathValue("id"))
	}
	return s, nil
}

// subject returns the name of the server that a call makes or concerns, or of the port that it makes; empty for other
// calls.
func (c *Cloud) subject(r *request) string {
	if r.label == createServerPattern {
		var ask struct{ Server struct{ Name string } }
		_ = json.Unmarshal(r.body, &ask) // malformed requests are rejected later
		return ask.Server.Name
	}
	if r.label == createPortPattern {
		var ask struct{ Port struct{ Name string } }
		_ = json.Unmarshal(r.body, &ask)
		return ask.Port.Name
	}
	_, tail, _ := strings.Cut(r.label, " ")
	if !strings.HasPrefix(tail, "/compute/v2.1/servers/{id}") {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, found := c.servers.get(r.PathValue("id")); found {
		return s.name
	}
	return ""
}

// listServers answers both the brief and the detailed list of servers, newest first.
func (c *Cloud) listServers(r *request) (reply, error) {
	q := r.URL.Query()
	p, err := takePaging(q, maxPage)
	if err != nil {
		return reply{}, err
	}
	match, err := serverFilter(q)
	if err != nil {
		return reply{}, err
	}
	found, next, err := page(c.servers.newest(), p, func(s *server) bool { return match(c, s) })
	if err != nil {
		return reply{}, err
	}
	views := make([]object, 0, len(found))
	for _, s := range found {
		if r.Pattern == "GET /compute/v2.1/servers" {
			views = append(views, object{"id": s.id, "name": s.name, "links": novaLinks(r, "servers", s.id)})
		} else {
			views = append(views, c.serverView(r, s, false))
		}
	}
	body := object{"servers": views}
	if next != "" {
		body["servers_links"] = []object{{"rel": "next", "href": r.nextURL(next)}}
	}
	return ok(body), nil
}

// serverFilter combines a list's filters into one test. Before microversion 2.75, Nova ignores unknown filters; the lab
// rejects them.
func serverFilter(q url.Values) (func(*Cloud, *server) bool, error) {
	var tests []func(*Cloud, *server) bool
	for name := range q {
		value := q.Get(name)
		if _, isTag := matchTags(name, value, nil); isTag {
			tests = append(tests, func(_ *Cloud, s *server) bool {
				matched, _ := matchTags(name, value, s.tags)
				return matched
			})
			continue
		}
		test, err := attributeFilter(name, value)
		if err != nil {
			return nil, err
		}
		tests = append(tests, test)
	}
	return func(c *Cloud, s *server) bool {
		for _, test := range tests {
			if !test(c, s) {
				return false
			}
		}
		return true
	}, nil
}

// attributeFilter returns the test for a filter that is not about tags. As in Nova with Neutron, a name is a regular
// expression, and an address matches a part of one.
func attributeFilter(name, value string) (func(*Cloud, *server) bool, error) {
	switch name {
	case "name":
		pattern, err := namePattern(value)
		return func(_ *Cloud, s *server) bool { return pattern.MatchString(s.name) }, err
	case "ip":
		return func(c *Cloud, s *server) bool {
			return slices.ContainsFunc(c.fixedAddresses(s),
				func(a netip.Addr) bool { return strings.Contains(a.String(), value) })
		}, nil
	case "status":
		return func(_ *Cloud, s *server) bool { return strings.EqualFold(s.status(), value) }, nil
	case "flavor":
		return func(_ *Cloud, s *server) bool { return s.flavor.ID == value }, nil
	case "image":
		return func(_ *Cloud, s *server) bool { return s.image == value }, nil
	case "uuid":
		return func(_ *Cloud, s *server) bool { return s.id == value }, nil
	case "all_tenants", "tenant_id", "project_id":
		// There is only one project.
		return func(*Cloud, *server) bool { return true }, nil
	}
	return nil, badRequest("'%s' does not match any of the regexes: '^_'", name)
}

// namePattern returns a filter on names as Nova evaluates it on MariaDB: it escapes each |, so that | stands for
// itself, and ignores case (nova/db/main/api.py, _safe_regex_mysql; the collation of the column). Nova rejects patterns
// that Python cannot compile.
func namePattern(value string) (*regexp.Regexp, error) {
	_, err := regexp.Compile(value)
	if err == nil {
		var pattern *regexp.Regexp
		if pattern, err = regexp.Compile("(?i:" + strings.ReplaceAll(value, "|", `\|`) + ")"); err == nil {
			return pattern, nil
		}
	}
	return nil, badRequest("Invalid input for query parameters name. Value: %s. '%[1]s' is not a 'regex'", value)
}

// fixedAddresses returns the addresses of a server's ports.
func (c *Cloud) fixedAddresses(s *server) []netip.Addr {
	addresses := []netip.Addr{}
	for _, p := range s.ports {
		for _, ip := range p.fixedIPs {
			addresses = append(addresses, ip.IPAddress)
		}
	}
	return addresses
}

// serverFields are the fields of a request to make a server. Fields without an effect in the lab are accepted and
// ignored; disks from volumes are not supported and thus rejected.
type serverFields struct {
	Name           string            `json:"name"`
	ImageRef       string            `json:"imageRef"`
	FlavorRef      string            `json:"flavorRef"`
	Networks       json.RawMessage   `json:"networks"`
	KeyName        string            `json:"key_name"`
	UserData       string            `json:"user_data"`
	Metadata       map[string]string `json:"metadata"`
	Tags           []string          `json:"tags"`
	Description    string            `json:"description"`
	AccessIPv4     string            `json:"accessIPv4"`
	SecurityGroups []struct {
		Name string `json:"name"`
	} `json:"security_groups"`

	ConfigDrive any    `json:"config_drive"`
	Zone        string `json:"availability_zone"`
	AdminPass   string `json:"adminPass"`
	DiskConfig  string `json:"OS-DCF:diskConfig"`
	Personality []any  `json:"personality"`
	MinCount    int    `json:"min_count"`
	MaxCount    int    `json:"max_count"`
}

// createServer begins to make a server. It checks the whole request before it changes anything.
func (c *Cloud) createServer(r *request) (reply, error) {
	var ask struct {
		Server serverFields    `json:"server"`
		Hints  json.RawMessage `json:"os:scheduler_hints"`
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	s, err := c.newServer(r, ask.Server)
	if err != nil {
		return reply{}, err
	}
	if err := c.schedule(s, ask.Server.Zone, ask.Hints); err != nil {
		return reply{}, err
	}
	if err := checkQuota(c.computeQuota, c.used, s.flavor.takes()); err != nil {
		return reply{}, err
	}
	groups, err := c.groupIDs(ask.Server)
	if err != nil {
		return reply{}, err
	}
	wanted, err := parseNetworks(r.version, ask.Server.Networks)
	if err != nil {
		return reply{}, err
	}
	if s.ports, err = c.connect(s.id, wanted, groups); err != nil {
		return reply{}, err
	}
	s.build = c.faults.onBuild(r.label, s.name, s.zone)
	c.claim(s, s.flavor)
	c.servers.add(s.id, s)
	s.note(r, "create")
	c.beginBuild(r.Context(), s)

	names := []object{{"name": "default"}}
	if len(ask.Server.SecurityGroups) > 0 {
		names = nil
		for _, g := range ask.Server.SecurityGroups {
			names = append(names, object{"name": g.Name})
		}
	}
	links := novaLinks(r, "servers", s.id)
	answer := accepted(object{"server": object{
		"id": s.id, "links": links, "OS-DCF:diskConfig": "MANUAL", "security_groups": names,
		"adminPass": cmp.Or(ask.Server.AdminPass, adminPassword()),
	}})
	answer.header = map[string]string{"Location": links[0]["href"].(string)}
	return answer, nil
}

// newServer checks the fields that can be checked alone.
func (c *Cloud) newServer(r *request, f serverFields) (*server, error) {
	now := time.Now()
	s := &server{
		id: uuid.NewString(), name: f.Name, description: f.Description, image: f.ImageRef, keyName: f.KeyName,
		metadata: make(map[string]string), tags: distinct(f.Tags), accessIPv4: f.AccessIPv4,
		created: now, updated: now, vm: vmBuilding, task: "scheduling",
	}
	for k, v := range f.Metadata {
		s.metadata[k] = v
	}
	if r.version < 19 {
		s.description = f.Name
	}
	switch {
	case f.Name == "":
		return nil, badRequest("Invalid input for field/attribute name. Value: . '' is too short")
	case len(f.Name) > 255:
		return nil, badRequest("Invalid input for field/attribute name. Value: %s. '%[1]s' is too long", f.Name)
	case len(f.Tags) > 0 && r.version < 52:
		return nil, badRequest("Additional properties are not allowed ('tags' was unexpected)")
	case f.Description != "" && r.version < 19:
		return nil, badRequest("Additional properties are not allowed ('description' was unexpected)")
	case len(f.Personality) > 0:
		return nil, badRequest("labcloud injects no files: use user_data")
	case f.MinCount > 1 || f.MaxCount > 1:
		return nil, badRequest("labcloud makes one server a call")
	}
	var err error
	if s.userData, err = decodeUserData(f.UserData); err != nil {
		return nil, err
	}
	return s, c.resolveServer(s, f)
}

// maxUserData is Nova's limit for the length in Base64.
const maxUserData = 65535

func decodeUserData(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(text) > maxUserData {
		return nil, badRequest("Invalid input for field/attribute user_data. Value: %s. '%[1]s' is not a 'base64'", text)
	}
	return data, nil
}

// resolveServer finds the image, flavor and key named in a request.
func (c *Cloud) resolveServer(s *server, f serverFields) error {
	var found bool
	if img, known := c.state.images.get(f.ImageRef); !known || img.status != "active" {
		return badRequest("Can not find requested image")
	}
	// Requests name an image by id or by the address with the id, as on real clouds.
	if s.flavor, found = c.state.flavors.get(f.FlavorRef[strings.LastIndex(f.FlavorRef, "/")+1:]); !found {
		return badRequest("Flavor %s could not be found.", f.FlavorRef)
	}
	if f.KeyName == "" {
		return nil
	}
	k, found := c.keypairs.get(f.KeyName)
	if !found {
		return badRequest("Invalid key_name provided.")
	}
	s.key = k.public
	return nil
}

// groupIDs returns the security groups for the ports that Nova makes, which a request gives by name or id; nil if it
// gives none.
func (c *Cloud) groupIDs(f serverFields) (*[]string, error) {
	if len(f.SecurityGroups) == 0 {
		return nil, nil
	}
	var ids []string
	for _, asked := range f.SecurityGroups {
		g, err := c.groupByName(asked.Name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, g.id)
	}
	return &ids, nil
}

// groupByName finds a security group by name or id.
func (c *Cloud) groupByName(name string) (*securityGroup, error) {
	for id, g := range c.securityGroups.all() {
		if id == name || g.name == name {
			return g, nil
		}
	}
	return nil, badRequest("Unable to find security_group with name or id '%s'", name)
}

// wantedNetwork is one connection in a request.
type wantedNetwork struct {
	UUID    string `json:"uuid"`
	Port    string `json:"port"`
	FixedIP string `json:"fixed_ip"`
	Tag     string `json:"tag"`
}

// parseNetworks parses the "networks" of a request. From 2.37 on they are required and may be "auto" or "none". A nil
// list means "auto".
func parseNetworks(v microversion, raw json.RawMessage) ([]wantedNetwork, error) {
	var word string
	if len(raw) > 0 && json.Unmarshal(raw, &word) == nil {
		switch {
		case v >= 37 && word == "auto":
			return nil, nil
		case v >= 37 && word == "none":
			return []wantedNetwork{}, nil
		}
		return nil, badRequest("Invalid input for field/attribute networks. Value: %s.", word)
	}
	if len(raw) == 0 && v >= 37 {
		return nil, badRequest("Invalid input for field/attribute server. 'networks' is a required property")
	}
	if len(raw) == 0 {
		return nil, nil
	}
	wanted := []wantedNetwork{}
	if err := json.Unmarshal(raw, &wanted); err != nil {
		return nil, badRequest("Invalid input for field/attribute networks. Value: %s.", raw)
	}
	return wanted, nil
}

// connect binds or makes the ports of a new server, all or none of them.
func (c *Cloud) connect(id string, wanted []wantedNetwork, groups *[]string) ([]*port, error) {
	if wanted == nil {
		n, err := c.onlyNetwork()
		if err != nil {
			return nil, err
		}
		wanted = []wantedNetwork{{UUID: n}}
	}
	var ports []*port
	for _, w := range wanted {
		p, err := c.connectOne(w, groups)
		if err != nil {
			c.disconnect(ports)
			return nil, err
		}
		p.bind(id)
		ports = append(ports, p)
	}
	return ports, nil
}

// connectOne finds an existing port or makes one.
func (c *Cloud) connectOne(w wantedNetwork, groups *[]string) (*port, error) {
	if w.Port != "" {
		p, found := c.ports.get(w.Port)
		if !found {
			return nil, badRequest("Port id %s could not be found.", w.Port)
		}
		if p.deviceID != "" {
			return nil, conflict("", "Port %s is still in use.", p.id)
		}
		return p, nil
	}
	n, found := c.networks.get(w.UUID)
	if !found {
		return nil, badRequest("Network %s could not be found.", w.UUID)
	}
	f := portFields{Groups: groups}
	if w.FixedIP != "" {
		f.FixedIPs = []wantedIP{{IPAddress: w.FixedIP}}
	}
	p, err := c.newPort(n, f)
	if err != nil {
		return nil, err
	}
	p.made = true
	return p, nil
}

// onlyNetwork returns the network of servers whose request names none: Nova uses it if there is exactly one.
func (c *Cloud) onlyNetwork() (string, error) {
	var ids []string
	for id, n := range c.networks.all() {
		if !n.External {
			ids = append(ids, id)
		}
	}
	if len(ids) != 1 {
		return "", conflict("", "Multiple possible networks found, use a Network ID to be more specific.")
	}
	return ids[0], nil
}

// disconnect releases a server's ports, and removes those that Nova created.
func (c *Cloud) disconnect(ports []*port) {
	for _, p := range slices.Clone(ports) {
		if p.made {
			c.removePort(p)
		} else {
			p.unbind()
		}
	}
}

// updateServer changes a server's name and description.
func (c *Cloud) updateServer(r *request) (reply, error) {
	var ask struct {
		Server struct {
			Name        *string `json:"name"`
			Description *string `json:"description"`
			AccessIPv4  *string `json:"accessIPv4"`
		} `json:"server"`
	}
	s, err := c.findServer(r)
	if err != nil {
		return reply{}, err
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	if ask.Server.Name != nil && *ask.Server.Name == "" {
		return reply{}, badRequest("Invalid input for field/attribute name. Value: . '' is too short")
	}
	set(&s.name, ask.Server.Name)
	set(&s.description, ask.Server.Description)
	set(&s.accessIPv4, ask.Server.AccessIPv4)
	s.touch()
	return ok(object{"server": c.serverView(r, s, true)}), nil
}

// deleteServer begins to delete a server, even if another change is running.
func (c *Cloud) deleteServer(r *request) (reply, error) {
	s, err := c.findServer(r)
	if err != nil {
		return reply{}, err
	}
	if err := s.checkLock(); err != nil {
		return reply{}, err
	}
	if s.task != "deleting" {
		s.note(r, "delete")
		c.beginDelete(r.Context(), s)
	}
	return noContent(), nil
}
