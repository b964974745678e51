package cloudtest

import (
	"errors"
	"fmt"
	"net/http"
)

// neutrons are checks of ports and security groups.
func neutrons() []check {
	return []check{
		{name: "a server on a port", run: serverOnPort},
		{name: "a port of a server is deleted", run: func(s *session) error {
			if err := s.running(); err != nil {
				return err
			}
			body, err := s.get("network/ports?device_id={server}")
			if err != nil {
				return err
			}
			_, err = s.want(http.StatusNoContent, http.MethodDelete,
				"network/ports/"+text(first(body, "ports"), "id"), "")
			return err
		}},
		{name: "Nova removes the port that it made", run: func(s *session) error {
			if err := s.running(); err != nil {
				return err
			}
			_, err := s.want(http.StatusNoContent, http.MethodDelete, "compute/servers/{server}", "")
			gone := s.gone()
			body, e := s.get("network/ports?device_id={server}")
			return errors.Join(err, gone, e, same("ports", 0, len(items(body, "ports"))))
		}},
		{name: "filters of ports", run: func(s *session) error {
			if err := s.port(`"fixed_ips":[{"ip_address":"10.60.77.3"}],"description":"text"`); err != nil {
				return err
			}
			var err error
			for query, want := range map[string]int{
				"fixed_ips=ip_address=10.60.77.3": 1, "fixed_ips=ip_address=10.60.77.4": 0, "name=check": 1,
				"id={port}": 1, "network_id={cluster}&name=check": 1, "status=DOWN&name=check": 1,
				"status=ACTIVE&name=check": 0, "description=text": 1, "description=TEXT": 1, "name=CHECK": 1, "name=check&name=other": 1,
				"admin_state_up=True&name=check": 1,
			} {
				body, e := s.get("network/ports?" + query)
				err = errors.Join(err, e, same(query, want, len(items(body, "ports"))))
			}
			return err
		}},
		{name: "tags of a port", run: func(s *session) error {
			err := s.port("")
			const path = "network/ports/{port}/tags"
			_, add := s.want(http.StatusCreated, http.MethodPut, path+"/a", "")
			_, all := s.want(http.StatusOK, http.MethodPut, path, `{"tags":["b","c"]}`)
			_, del := s.want(http.StatusNoContent, http.MethodDelete, path+"/b", "")
			body, e := s.get(path)
			found, g := s.get("network/ports?tags=c")
			return errors.Join(err, add, all, del, e, g, same("tags", object{"tags": []any{"c"}}, body),
				same("by tag", 1, len(items(found, "ports"))))
		}},
		{name: "refused: a port that is not there", run: refusedBy(refusal{http.MethodGet, "network/ports/{absent}", "", 404,
			"PortNotFound", "Port ID could not be found."})},
		{name: "refused: a port of an unknown network", run: refusedBy(refusal{http.MethodPost, "network/ports",
			`{"port":{"network_id":"{absent}"}}`, 404, "NetworkNotFound", "Network ID could not be found."})},
		{name: "refused: a port of an unknown security group", run: refusedBy(refusal{http.MethodPost, "network/ports",
			`{"port":{"network_id":"{cluster}","security_groups":["{absent}"]}}`, 404, "SecurityGroupNotFound",
			"Security group ID does not exist"})},
		{name: "refused: a port with an unknown field", run: refusedBy(refusal{http.MethodPost, "network/ports",
			`{"port":{"network_id":"{cluster}","colour":"red"}}`, 400, "HTTPBadRequest",
			"Unrecognized attribute(s) 'colour'"})},
		{name: "refused: a port with an address of another network", run: refusedBy(refusal{http.MethodPost, "network/ports",
			`{"port":{"network_id":"{cluster}","fixed_ips":[{"ip_address":"192.0.2.1"}]}}`, 400, "InvalidIpForNetwork",
			"IP address 192.0.2.1 is not a valid IP for any of the subnets on the specified network."})},
		{name: "refused: an address twice", run: func(s *session) error {
			if err := s.port(`"fixed_ips":[{"ip_address":"10.60.77.3"}]`); err != nil {
				return err
			}
			return s.refused(refusal{http.MethodPost, "network/ports",
				`{"port":{"network_id":"{cluster}","fixed_ips":[{"ip_address":"10.60.77.3"}]}}`, 409,
				"IpAddressAlreadyAllocated", "IP address 10.60.77.3 already allocated in subnet ID"})
		}},
		{name: "refused: ports by an unknown attribute", run: func(s *session) error {
			return errors.Join(s.port(""), s.refused(refusal{http.MethodGet, "network/ports?colour=red", "", 400,
				"HTTPBadRequest", "['colour'] is invalid attribute for filtering"}))
		}},
		{name: "security groups", run: securityGroups},
	}
}

// refusedBy is a check that one call is rejected.
func refusedBy(r refusal) func(*session) error { return func(s *session) error { return s.refused(r) } }

// port makes a port, and sets the word {port}.
func (s *session) port(more string) error {
	if more != "" {
		more = "," + more
	}
	a, err := s.want(http.StatusCreated, http.MethodPost, "network/ports",
		`{"port":{"network_id":"{cluster}","name":"check"`+more+`}}`)
	s.ids["{port}"] = text(field(a.body, "port"), "id")
	return err
}

// serverOnPort makes a server on an existing port, which remains when the server is deleted.
func serverOnPort(s *session) error {
	if err := s.port(`"fixed_ips":[{"ip_address":"10.60.77.7"}]`); err != nil {
		return err
	}
	body := `{"server":{"name":"check","imageRef":"{node-v1}","flavorRef":"{small}","networks":[{"port":"{port}"}]}}`
	a, err := s.want(http.StatusAccepted, http.MethodPost, "compute/servers", body)
	if err != nil {
		return err
	}
	s.ids["{server}"] = text(field(a.body, "server"), "id")
	server, err := s.through("BUILD", "ACTIVE")
	if err != nil {
		return err
	}
	port, err := s.get("network/ports/{port}")
	if err != nil {
		return err
	}
	addresses := items(field(server, "addresses"), "cluster")
	if len(addresses) != 1 {
		return fmt.Errorf("addresses: %v", server["addresses"])
	}
	err = errors.Join(
		has("address", addresses[0], object{"addr": "10.60.77.7"}),
		has("port", field(port, "port"), object{"device_id": s.ids["{server}"], "device_owner": "compute:nova",
			"status": "ACTIVE"}),
		s.refused(refusal{http.MethodPost, "compute/servers", body, 409, "conflictingRequest",
			"Port ID is still in use."}))
	_, del := s.want(http.StatusNoContent, http.MethodDelete, "compute/servers/{server}", "")
	if err := errors.Join(err, del, s.gone()); err != nil {
		return err
	}
	port, err = s.get("network/ports/{port}")
	return errors.Join(err, has("port after its server", field(port, "port"),
		object{"device_id": "", "device_owner": "", "status": "DOWN"}))
}

// securityGroups checks groups and rules.
func securityGroups(s *session) error {
	a, err := s.want(http.StatusCreated, http.MethodPost, "network/security-groups",
		`{"security_group":{"name":"check","description":"text"}}`)
	if err != nil {
		return err
	}
	group := field(a.body, "security_group")
	s.ids["{group}"] = text(group, "id")
	const rule = `{"security_group_rule":{"security_group_id":"{group}","direction":"ingress","protocol":"tcp",` +
		`"port_range_min":22,"port_range_max":22}}`
	_, made := s.want(http.StatusCreated, http.MethodPost, "network/security-group-rules", rule)
	twice := s.refused(refusal{http.MethodPost, "network/security-group-rules", rule, 409, "SecurityGroupRuleExists",
		"Security group rule already exists. Rule id is ID."})
	backwards := s.refused(refusal{http.MethodPost, "network/security-group-rules",
		`{"security_group_rule":{"security_group_id":"{group}","direction":"up"}}`, 400, "HTTPBadRequest",
		"Invalid input for direction. Reason: up is not in valid_values."})
	used := errors.Join(s.port(`"security_groups":["{group}"]`),
		s.refused(refusal{http.MethodDelete, "network/security-groups/{group}", "", 409, "SecurityGroupInUse",
			"Security Group ID in use."}))
	_, free := s.want(http.StatusNoContent, http.MethodDelete, "network/ports/{port}", "")
	_, del := s.want(http.StatusNoContent, http.MethodDelete, "network/security-groups/{group}", "")
	return errors.Join(made, twice, backwards, used, free, del,
		has("group", group, object{"name": "check", "description": "text", "stateful": true}),
		same("rules of a new group", 2, len(items(group, "security_group_rules"))))
}
