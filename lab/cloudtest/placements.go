package cloudtest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// placements are checks of availability zones, server groups and scheduler hints. The cloud has one zone with one host.
func placements() []check {
	return []check{
		{name: "availability zones are listed", run: func(s *session) error {
			list, err := s.get("compute/os-availability-zone")
			names := values(items(list, "availabilityZoneInfo"), "zoneName")
			zone := first(list, "availabilityZoneInfo")
			return errors.Join(err, same("zones", []string{"nova"}, names),
				has("the zone", zone, object{"zoneState": object{"available": true}, "hosts": nil}))
		}},
		{name: "an availability zone is asked for", run: func(s *session) error {
			if _, err := s.create(`,"availability_zone":"nova"`); err != nil {
				return err
			}
			server, err := s.through("BUILD", "ACTIVE")
			return errors.Join(err, has("server", server, object{"OS-EXT-AZ:availability_zone": "nova"}),
				s.refused(refusal{method: http.MethodPost, path: "compute/servers",
					body: s.server("{small}", `,"availability_zone":"moon"`), status: http.StatusBadRequest,
					kind: "badRequest", message: "The requested availability zone is not available"}))
		}},
		{name: "servers of a group are on different hosts", run: antiAffinity},
		{name: "a server group that there is not", run: func(s *session) error {
			const absent = "11111111-2222-4333-8444-555555555555"
			return errors.Join(
				s.refused(refusal{method: http.MethodPost, path: "compute/servers", body: s.hinted("check", absent),
					status: http.StatusBadRequest, kind: "badRequest", message: "Instance group ID could not be found."}),
				s.refused(refusal{method: http.MethodDelete, path: "compute/os-server-groups/" + absent,
					status: http.StatusNotFound, kind: "itemNotFound", message: "Instance group ID could not be found."}),
				s.refused(refusal{method: http.MethodPost, path: "compute/os-server-groups",
					body:   `{"server_group":{"name":"check","policy":"far-away"}}`,
					status: http.StatusBadRequest, kind: "badRequest",
					message: "Invalid input for field/attribute policy. Value: far-away. 'far-away' is not one of " +
						"['anti-affinity', 'affinity', 'soft-anti-affinity', 'soft-affinity']"}))
		}},
		{name: "a port is detached from a stopped server", run: detached},
		{name: "a hint that no filter of the scheduler reads is accepted", run: func(s *session) error {
			body := s.server("{small}", "")
			a, err := s.want(http.StatusAccepted, http.MethodPost, "compute/servers",
				body[:len(body)-1]+`,"os:scheduler_hints":{"colour":"red"}}`)
			if err != nil {
				return err
			}
			s.ids["{server}"] = text(field(a.body, "server"), "id")
			_, err = s.through("BUILD", "ACTIVE")
			return err
		}},
	}
}

// hinted returns the body of a request for a server of a server group.
func (s *session) hinted(name, group string) string {
	s.name = name
	body := s.server("{small}", "")
	return fmt.Sprintf(`%s,"os:scheduler_hints":{"group":"%s"}}`, body[:len(body)-1], group)
}

// antiAffinity makes a server group and two servers in it. There is one host, so the second server gets none.
func antiAffinity(s *session) error {
	a, err := s.want(http.StatusOK, http.MethodPost, "compute/os-server-groups",
		`{"server_group":{"name":"check","policy":"anti-affinity"}}`)
	if err != nil {
		return err
	}
	group := text(field(a.body, "server_group"), "id")
	build := func(name string, states ...string) (object, error) {
		a, err := s.want(http.StatusAccepted, http.MethodPost, "compute/servers", s.hinted(name, group))
		if err != nil {
			return nil, err
		}
		s.ids["{server}"] = text(field(a.body, "server"), "id")
		return s.through(states...)
	}
	alone, err := build("alone", "BUILD", "ACTIVE")
	if err != nil {
		return err
	}
	one := s.ids["{server}"]
	apart, err := build("apart", "BUILD", "ERROR")
	list, e := s.get("compute/os-server-groups")
	i := slices.IndexFunc(items(list, "server_groups"), func(g object) bool { return g["id"] == group })
	if err = errors.Join(err, e); err == nil && i < 0 {
		err = errors.New("the server group is not listed")
	}
	if err != nil {
		return err
	}
	listed := items(list, "server_groups")[i]
	_, left := s.want(http.StatusNoContent, http.MethodDelete, "compute/servers/"+one, "")
	_, e = s.want(http.StatusNoContent, http.MethodDelete, "compute/os-server-groups/"+group, "")
	return errors.Join(left, e,
		has("the first server", alone, object{"server_groups": []any{group}}),
		has("the second server", field(apart, "fault"), object{"code": 500.0,
			"message": "No valid host was found. There are not enough hosts available."}),
		has("the group", listed, object{"name": "check", "policy": "anti-affinity", "rules": object{},
			"project_id": s.ids["{project}"]}))
}

// detached detaches the only port of a server, which Nova does soon after its answer. It gives the same answer for a
// port that is not attached.
func detached(s *session) error {
	if err := s.running(); err != nil {
		return err
	}
	if err := s.story(step{`{"os-stop":null}`, []string{"ACTIVE", "SHUTOFF"}}); err != nil {
		return err
	}
	const path = "compute/servers/{server}/os-interface"
	body, err := s.get(path)
	if err != nil {
		return err
	}
	port := text(first(body, "interfaceAttachments"), "port_id")
	if _, err := s.want(http.StatusAccepted, http.MethodDelete, path+"/"+port, ""); err != nil {
		return err
	}
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		body, err := s.get(path)
		if left := items(body, "interfaceAttachments"); err != nil || len(left) == 0 {
			again, e := s.call(http.MethodDelete, path+"/"+port, "")
			return errors.Join(err, e, same("detached again", http.StatusAccepted, again.status))
		} else if time.Now().After(end) {
			return fmt.Errorf("the server still has %v", left)
		}
	}
}
