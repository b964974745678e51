package labcloud

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// The only domain.
const (
	domainID   = "default"
	domainName = "Default"
)

// hexID is an id in Keystone's form: without hyphens.
func hexID(id string) string { return strings.ReplaceAll(id, "-", "") }

// hostID is the id of a zone's only host, as a project sees it: 56 digits, a hash of host and project.
func hostID(project, zone string) string {
	sum := sha256.Sum224([]byte(project + zone))
	return hex.EncodeToString(sum[:])
}

func (c *Cloud) identityRoutes() []route {
	return []route{
		{identity, "GET /identity/{$}", true, func(r *request) (reply, error) {
			return reply{status: http.StatusMultipleChoices, body: object{
				"versions": object{"values": []object{keystoneVersion(r)}},
			}, header: map[string]string{"Location": r.base + "/identity/v3/"}}, nil
		}},
		{identity, "GET /identity/v3", true, keystoneDocument},
		{identity, "GET /identity/v3/{$}", true, keystoneDocument},
		{identity, "POST /identity/v3/auth/tokens", true, c.issueToken},
		{identity, "GET /identity/v3/auth/tokens", false, c.showToken},
		{identity, "DELETE /identity/v3/auth/tokens", false, func(r *request) (reply, error) {
			delete(c.tokens, r.Header.Get("X-Subject-Token"))
			return noContent(), nil
		}},
	}
}

func keystoneVersion(r *request) object {
	return object{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       []object{{"rel": "self", "href": r.base + "/identity/v3/"}},
		"media-types": []object{{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
}

func keystoneDocument(r *request) (reply, error) {
	return ok(object{"version": keystoneVersion(r)}), nil
}

// named is a reference to a user, project or domain in requests for tokens.
type named struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Password string `json:"password"`
	Domain   *named `json:"domain"`
}

// is reports whether n refers to the object with this id, or with this name in the domain.
func (n *named) is(id, name string) bool {
	if n == nil {
		return false
	}
	if n.ID != "" {
		return n.ID == id
	}
	return n.Name == name && n.Domain != nil && (n.Domain.ID == domainID || n.Domain.Name == domainName)
}

// issueToken issues a token, scoped to the project, for a password. A request without a scope gets the same, since the
// project is the user's default.
func (c *Cloud) issueToken(r *request) (reply, error) {
	var ask struct {
		Auth struct {
			Identity struct {
				Methods  []string `json:"methods"`
				Password struct {
					User *named `json:"user"`
				} `json:"password"`
			} `json:"identity"`
			Scope *struct {
				Project *named `json:"project"`
			} `json:"scope"`
		} `json:"auth"`
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	user, scope := ask.Auth.Identity.Password.User, ask.Auth.Scope
	if !user.is(c.userID, c.cfg.User) || user.Password != c.cfg.Password ||
		scope != nil && !scope.Project.is(c.projectID, c.cfg.Project) {
		return reply{}, unauthorized()
	}
	token := "gAAAA" + rand.Text()
	c.tokens[token] = time.Now().Add(c.cfg.Timings.Token)
	return reply{
		status: http.StatusCreated,
		body:   c.tokenBody(r, c.tokens[token]),
		header: map[string]string{"X-Subject-Token": token},
	}, nil
}

// showToken answers whether a token is valid.
func (c *Cloud) showToken(r *request) (reply, error) {
	subject := r.Header.Get("X-Subject-Token")
	if !c.authenticated(subject) {
		return reply{}, notFound("", "Could not find token: %s.", subject)
	}
	answer := ok(c.tokenBody(r, c.tokens[subject]))
	answer.header = map[string]string{"X-Subject-Token": subject}
	return answer, nil
}

// authenticated reports whether a token is valid, and forgets an expired one.
func (c *Cloud) authenticated(token string) bool {
	expires, found := c.tokens[token]
	if found && !time.Now().Before(expires) {
		delete(c.tokens, token)
		return false
	}
	return found
}

// tokenBody is a token with its user, scope and catalog.
func (c *Cloud) tokenBody(r *request, expires time.Time) object {
	domain := object{"id": domainID, "name": domainName}
	return object{"token": object{
		"methods":    []string{"password"},
		"user":       object{"domain": domain, "id": c.userID, "name": c.cfg.User, "password_expires_at": nil},
		"audit_ids":  []string{rand.Text()[:22]},
		"issued_at":  micro(expires.Add(-c.cfg.Timings.Token)) + "Z",
		"expires_at": micro(expires) + "Z",
		"project":    object{"domain": domain, "id": c.projectID, "name": c.cfg.Project},
		"is_domain":  false,
		"roles": []object{
			{"id": hexID(stableID("role", "reader")), "name": "reader"},
			{"id": hexID(stableID("role", "member")), "name": "member"},
		},
		"catalog": c.catalog(r),
	}}
}

// catalog has every service, with the host by which the client reached us.
func (c *Cloud) catalog(r *request) []object {
	var entries []object
	for _, e := range []struct {
		kind       service
		name, path string
	}{
		{network, "neutron", "/network"},
		{compute, "nova", "/compute/v2.1"},
		{identity, "keystone", "/identity/v3"},
		{image, "glance", "/image"},
	} {
		var endpoints []object
		for _, side := range []string{"public", "admin", "internal"} {
			endpoints = append(endpoints, object{
				"id": hexID(stableID("endpoint", string(e.kind)+side)), "interface": side,
				"region_id": c.cfg.Region, "region": c.cfg.Region, "url": r.base + e.path,
			})
		}
		entries = append(entries, object{
			"endpoints": endpoints, "id": hexID(stableID("service", string(e.kind))),
			"type": string(e.kind), "name": e.name,
		})
	}
	return entries
}

// seconds and micro are OpenStack's two formats of times.
func seconds(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
func micro(t time.Time) string   { return t.UTC().Format("2006-01-02T15:04:05.000000") }
