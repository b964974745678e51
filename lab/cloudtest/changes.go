package cloudtest

import (
	"errors"
	"net/http"
)

// changes are checks of metadata, tags, keys and quota.
func changes() []check {
	return []check{
		{name: "metadata", run: func(s *session) error {
			s.version = ""
			if err := s.running(); err != nil {
				return err
			}
			const path = "compute/servers/{server}/metadata"
			var errs []error
			for _, c := range []struct {
				status             int
				method, path, body string
				after              object
			}{
				{200, http.MethodPost, path, `{"metadata":{"a":"1","b":"2"}}`, object{"a": "1", "b": "2"}},
				{200, http.MethodPost, path, `{"metadata":{"b":"3"}}`, object{"a": "1", "b": "3"}},
				{200, http.MethodPut, path + "/c", `{"meta":{"c":"4"}}`, object{"a": "1", "b": "3", "c": "4"}},
				{204, http.MethodDelete, path + "/a", "", object{"b": "3", "c": "4"}},
				{200, http.MethodPut, path, `{"metadata":{"z":"9"}}`, object{"z": "9"}},
			} {
				_, err := s.want(c.status, c.method, c.path, c.body)
				body, e := s.get(path)
				errs = append(errs, err, e, same(c.method+" "+c.body, c.after, field(body, "metadata")))
			}
			one, err := s.get(path + "/z")
			return errors.Join(append(errs, err, same("one", object{"meta": object{"z": "9"}}, one))...)
		}},
		{name: "tags of a server", run: func(s *session) error {
			if err := s.running(); err != nil {
				return err
			}
			const path = "compute/servers/{server}/tags"
			var errs []error
			for _, c := range []struct {
				status             int
				method, path, body string
			}{
				{201, http.MethodPut, path + "/a", ""}, {204, http.MethodPut, path + "/a", ""},
				{204, http.MethodGet, path + "/a", ""}, {404, http.MethodGet, path + "/b", ""},
				{200, http.MethodPut, path, `{"tags":["b","c"]}`}, {204, http.MethodDelete, path + "/b", ""},
			} {
				_, err := s.want(c.status, c.method, c.path, c.body)
				errs = append(errs, err)
			}
			body, err := s.get(path)
			errs = append(errs, err, same("tags", object{"tags": []any{"c"}}, body))
			for query, want := range map[string]int{"tags=c": 1, "tags=c,d": 0, "tags-any=c,d": 1, "not-tags=c": 0} {
				list, err := s.get("compute/servers?name=^check$&" + query)
				errs = append(errs, err, same(query, want, len(items(list, "servers"))))
			}
			_, err = s.want(http.StatusNoContent, http.MethodDelete, path, "")
			return errors.Join(append(errs, err)...)
		}},
		{name: "a server with tags and metadata from the start", run: func(s *session) error {
			_, err := s.create(`,"tags":["a"],"metadata":{"k":"v"},"description":"text"`)
			if err != nil {
				return err
			}
			server, err := s.through("BUILD", "ACTIVE")
			return errors.Join(err, has("server", server, object{
				"tags": []any{"a"}, "metadata": object{"k": "v"}, "description": "text"}))
		}},
		{name: "a server is renamed", run: func(s *session) error {
			if err := s.running(); err != nil {
				return err
			}
			a, err := s.want(http.StatusOK, http.MethodPut, "compute/servers/{server}",
				`{"server":{"name":"check-renamed"}}`)
			_, e := s.want(http.StatusOK, http.MethodPut, "compute/servers/{server}", `{"server":{"name":"check"}}`)
			return errors.Join(err, e, has("server", field(a.body, "server"), object{"name": "check-renamed"}))
		}},
		{name: "keys", run: func(s *session) error {
			key := `{"keypair":{"name":"check","public_key":"` + publicKey + `"}}`
			a, err := s.want(http.StatusCreated, http.MethodPost, "compute/os-keypairs", key)
			again := s.refused(refusal{method: http.MethodPost, path: "compute/os-keypairs", body: key, status: 409,
				kind: "conflictingRequest", message: "Key pair 'check' already exists."})
			_, e := s.create(`,"key_name":"check"`)
			server, g := s.through("BUILD", "ACTIVE")
			_, d := s.want(http.StatusNoContent, http.MethodDelete, "compute/os-keypairs/check", "")
			return errors.Join(err, again, e, g, d, has("server", server, object{"key_name": "check"}),
				has("keypair", field(a.body, "keypair"), object{"name": "check", "public_key": publicKey,
					"fingerprint": fingerprint, "type": "ssh"}))
		}},
		{name: "quota", run: quota},
	}
}

// publicKey is a key whose private half no longer exists; fingerprint is its MD5.
const (
	publicKey   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIpIBPyqOgkM2XD5O5rIfkRy/kyCQjwPK9r2xHg0yCkC nobody"
	fingerprint = "4a:ce:9e:10:25:09:a2:89:eb:4e:0f:68:31:df:00:e2"
)

// quota sets limits as the administrator, exceeds them, and removes them.
func quota(s *session) error {
	if err := s.running(); err != nil {
		return err
	}
	server, err := s.show()
	if err != nil {
		return err
	}
	path := "os-quota-sets/" + text(server, "tenant_id")
	limit := func(limits string) error {
		_, err := s.want(http.StatusOK, http.MethodPut, "admin/"+path, `{"quota_set":{`+limits+`}}`)
		return err
	}
	exceeded := func(flavor, message string) error {
		return s.refused(refusal{method: http.MethodPost, path: "compute/servers", body: s.server(flavor, ""),
			status: 403, kind: "forbidden", message: message})
	}
	err = errors.Join(
		limit(`"cores":1,"instances":-1,"ram":-1`),
		exceeded("{small}", "Quota exceeded for cores: Requested 1, but already used 1 of 1 cores"),
		limit(`"cores":4`),
		exceeded("{big}", "Quota exceeded for cores: Requested 8, but already used 1 of 4 cores"),
		limit(`"cores":1,"instances":1`),
		exceeded("{small}",
			"Quota exceeded for cores, instances: Requested 1, 1, but already used 1, 1 of 1, 1 cores, instances"),
		limit(`"cores":-1,"instances":-1,"ram":600`),
		exceeded("{small}", "Quota exceeded for ram: Requested 512, but already used 512 of 600 ram"),
		s.refused(refusal{method: http.MethodPost, path: "compute/servers/{server}/action",
			body: `{"resize":{"flavorRef":"{big}"}}`, status: 403, kind: "forbidden",
			message: "Quota exceeded for ram: Requested 15872, but already used 512 of 600 ram"}),
	)
	body, e := s.get("compute/" + path + "/detail")
	set := field(body, "quota_set")
	return errors.Join(err, e,
		same("ram", object{"limit": 600.0, "in_use": 512.0, "reserved": 0.0}, field(set, "ram")),
		same("instances", object{"limit": -1.0, "in_use": 1.0, "reserved": 0.0}, field(set, "instances")),
		limit(`"cores":-1,"instances":-1,"ram":-1`))
}
