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

// The routes that other files refer to.
const (
	createServerPattern = "POST /compute/v2.1/servers"
	actionPattern       = "POST /compute/v2.1/servers/{id}/action"
	rebuildLabel        = actionPattern + " rebuild"
)

// maxPage is the greatest page of Nova and Glance; a client that wants more
// must follow the links.
const maxPage = 1000

// server is one server. What Nova calls its status follows from vm and task.
type server struct {
	id, name, description string
	flavor                Flavor
	// oldFlavor is what a resize that is not confirmed can go back to.
	oldFlavor *Flavor
	// claimed is what the server takes of the quota: during a resize, what it
	// will.
	claimed usage
	image   string
	keyName string
	// key is the public key itself: a server keeps it when the pair is deleted.
	key        string
	userData   []byte
	metadata   map[string]string
	tags       []string
	accessIPv4 string
	ports      []*port
	// placed says that the scheduler found a host. Until then Nova shows no
	// addresses.
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
	// operation is the change that is under way, or the last one that was.
	operation *operation
}

// serverFault is why a server is in ERROR.
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

// note adds to the server's history.
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

// findServer finds the server that a path names.
func (c *Cloud) findServer(r *request) (*server, error) {
	s, found := c.servers.get(r.PathValue("id"))
	if !found {
		return nil, notFound("", "Instance %s could not be found.", r.PathValue("id"))
	}
	return s, nil
}

// subject is the name of the server that a call makes or concerns; empty for
// other calls.
func (c *Cloud) subject(r *request) string {
	if r.label == createServerPattern {
		var ask struct{ Server struct{ Name string } }
		_ = json.Unmarshal(r.body, &ask) // what is malformed is refused later
		return ask.Server.Name
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

// listServers answers both the brief and the detailed list, newest first.
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

// serverFilter makes one test of a list's filters. Before microversion 2.75 Nova drops filters that it
// does not know; here they are refused.
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

// attributeFilter is the test for one filter that is not about tags. A name is a regular expression, and an address a
// part of one, as in Nova that has Neutron.
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
		// There is one project only.
		return func(*Cloud, *server) bool { return true }, nil
	}
	return nil, badRequest("'%s' does not match any of the regexes: '^_'", name)
}

// namePattern is a filter on names as Nova has it on MariaDB: each | is escaped and stands for itself, and letters match
// in either case (nova/db/main/api.py, _safe_regex_mysql; the collation of the column). Nova refuses what Python cannot
// compile.
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

// fixedAddresses are the addresses of a server's ports.
func (c *Cloud) fixedAddresses(s *server) []netip.Addr {
	addresses := []netip.Addr{}
	for _, p := range s.ports {
		for _, ip := range p.fixedIPs {
			addresses = append(addresses, ip.IPAddress)
		}
	}
	return addresses
}

// serverFields is what a request to make a server may say. Parts that change
// nothing here are taken and forgotten; disks from volumes are not there, and
// so refused.
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

// createServer begins a server. Everything that can be refused is refused
// before anything is made.
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
	s.build = c.faults.onBuild(r.label, s.name)
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

// newServer checks the fields that stand for themselves.
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
	case f.Zone != "" && f.Zone != zone:
		return nil, badRequest("The requested availability zone is not available")
	}
	var err error
	if s.userData, err = decodeUserData(f.UserData); err != nil {
		return nil, err
	}
	return s, c.resolveServer(s, f)
}

// maxUserData is the length that Nova allows, in Base64.
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

// resolveServer finds the image, flavor and key that a request names.
func (c *Cloud) resolveServer(s *server, f serverFields) error {
	var found bool
	if img, known := c.state.images.get(f.ImageRef); !known || img.status != "active" {
		return badRequest("Can not find requested image")
	}
	// Real clouds are asked by id or by the id's address.
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

// groupIDs are the security groups for the ports that Nova makes itself, which
// a request names by name or id; nil if it names none.
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

// wantedNetwork is one connection that a request asks for.
type wantedNetwork struct {
	UUID    string `json:"uuid"`
	Port    string `json:"port"`
	FixedIP string `json:"fixed_ip"`
	Tag     string `json:"tag"`
}

// parseNetworks reads the "networks" of a request. The words "auto" and "none"
// are there, and the whole required, from 2.37 on. A nil list is "auto".
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

// connectOne finds a port that is there or makes one.
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

// onlyNetwork is the network of servers that name none: Nova takes it if there
// is no choice.
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

// disconnect releases a server's ports: those that Nova created are removed.
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

// deleteServer begins to delete a server, whatever else is under way.
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
