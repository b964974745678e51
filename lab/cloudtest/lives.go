package cloudtest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// lives are checks of the states that servers go through.
func lives() []check {
	return []check{
		{name: "a server is built", run: func(s *session) error {
			if _, err := s.create(""); err != nil {
				return err
			}
			server, err := s.through("BUILD", "ACTIVE")
			if err != nil {
				return err
			}
			return errors.Join(
				has("server", server, object{
					"OS-EXT-STS:vm_state": "active", "OS-EXT-STS:power_state": 1.0, "progress": 0.0, "tags": []any{},
					"description": nil, "locked": false, "accessIPv4": "", "key_name": nil, "config_drive": "True",
					"OS-EXT-AZ:availability_zone": "nova", "server_groups": []any{}, "fault": nil,
				}),
				has("address", first(field(server, "addresses"), "cluster"),
					object{"version": 4.0, "OS-EXT-IPS:type": "fixed"}))
		}},
		{name: "a soft and a hard reboot", run: func(s *session) error {
			return s.story(
				step{`{"reboot":{"type":"SOFT"}}`, []string{"REBOOT", "ACTIVE"}},
				step{`{"reboot":{"type":"HARD"}}`, []string{"HARD_REBOOT", "ACTIVE"}},
			)
		}},
		{name: "a server is stopped and started", run: func(s *session) error {
			return s.story(
				step{`{"os-stop":null}`, []string{"ACTIVE", "SHUTOFF"}},
				step{`{"os-start":null}`, []string{"SHUTOFF", "ACTIVE"}},
				step{`{"os-stop":null}`, []string{"ACTIVE", "SHUTOFF"}},
				step{`{"reboot":{"type":"HARD"}}`, []string{"SHUTOFF", "HARD_REBOOT", "ACTIVE"}},
			)
		}},
		{name: "a stopped server has the power state 4", run: func(s *session) error {
			err := s.story(step{`{"os-stop":null}`, []string{"ACTIVE", "SHUTOFF"}})
			server, e := s.show()
			return errors.Join(err, e, has("server", server,
				object{"OS-EXT-STS:power_state": 4.0, "OS-EXT-STS:vm_state": "stopped", "progress": nil}))
		}},
		{name: "a server is shelved and unshelved", run: func(s *session) error {
			return s.story(
				step{`{"shelve":null}`, []string{"ACTIVE", "SHELVED", "SHELVED_OFFLOADED"}},
				step{`{"unshelve":null}`, []string{"SHELVED_OFFLOADED", "ACTIVE"}},
				step{`{"os-stop":null}`, []string{"ACTIVE", "SHUTOFF"}},
				step{`{"shelve":null}`, []string{"SHUTOFF", "SHELVED", "SHELVED_OFFLOADED"}},
			)
		}},
		{name: "a shelved server keeps its address and its quota, and can be deleted", run: shelvedKeeps},
		{name: "a rebuild keeps id and address", run: rebuildKeeps},
		{name: "a stopped server is stopped after its rebuild", run: func(s *session) error {
			return s.story(
				step{`{"os-stop":null}`, []string{"ACTIVE", "SHUTOFF"}},
				step{`{"rebuild":{"imageRef":"{node-v2}"}}`, []string{"REBUILD", "SHUTOFF"}},
			)
		}},
		{name: "a resize is confirmed", run: func(s *session) error {
			err := s.story(step{`{"resize":{"flavorRef":"{big}"}}`, []string{"RESIZE", "VERIFY_RESIZE"}})
			if err != nil {
				return err
			}
			_, err = s.want(http.StatusNoContent, http.MethodPost, "compute/servers/{server}/action",
				`{"confirmResize":null}`)
			server, e := s.through("VERIFY_RESIZE", "ACTIVE")
			return errors.Join(err, e, has("flavor", field(server, "flavor"), object{"original_name": "big"}))
		}},
		{name: "a resize is reverted", run: func(s *session) error {
			err := s.story(
				step{`{"resize":{"flavorRef":"{big}"}}`, []string{"RESIZE", "VERIFY_RESIZE"}},
				step{`{"revertResize":null}`, []string{"VERIFY_RESIZE", "REVERT_RESIZE", "ACTIVE"}},
			)
			server, e := s.show()
			return errors.Join(err, e, has("flavor", field(server, "flavor"), object{"original_name": "small"}))
		}},
		{name: "no valid host", run: noValidHost},
		{name: "a server is deleted", run: func(s *session) error {
			if err := s.running(); err != nil {
				return err
			}
			_, err := s.want(http.StatusNoContent, http.MethodDelete, "compute/servers/{server}", "")
			if err := errors.Join(err, s.gone()); err != nil {
				return err
			}
			return s.refused(refusal{method: http.MethodDelete, path: "compute/servers/{server}", status: 404,
				kind: "itemNotFound", message: "Instance ID could not be found."})
		}},
		{name: "the actions of a server are listed, the newest first", run: func(s *session) error {
			err := s.story(
				step{`{"os-stop":null}`, []string{"ACTIVE", "SHUTOFF"}},
				step{`{"os-start":null}`, []string{"SHUTOFF", "ACTIVE"}},
			)
			body, e := s.get("compute/servers/{server}/os-instance-actions")
			return errors.Join(err, e, same("actions", []string{"start", "stop", "create"},
				values(items(body, "instanceActions"), "action")))
		}},
		{name: "a lock forbids changes", run: func(s *session) error {
			err := errors.Join(s.running(), s.act(`{"lock":null}`))
			for _, r := range []refusal{
				{method: http.MethodDelete, path: "compute/servers/{server}"},
				{method: http.MethodPost, path: "compute/servers/{server}/action", body: `{"os-stop":null}`},
				{method: http.MethodPost, path: "compute/servers/{server}/action",
					body: `{"rebuild":{"imageRef":"{node-v2}"}}`},
			} {
				r.status, r.kind, r.message = 409, "conflictingRequest", "Instance ID is locked"
				err = errors.Join(err, s.refused(r))
			}
			return errors.Join(err, s.act(`{"unlock":null}`))
		}},
		{name: "a snapshot becomes an image", run: snapshot},
	}
}

// shelvedKeeps checks what a shelved server keeps.
func shelvedKeeps(s *session) error {
	if err := s.running(); err != nil {
		return err
	}
	before, err := s.show()
	used, e := s.get("compute/limits")
	err = errors.Join(err, e, s.act(`{"shelve":null}`))
	if err != nil {
		return err
	}
	server, err := s.through("ACTIVE", "SHELVED", "SHELVED_OFFLOADED")
	if err != nil {
		return err
	}
	limits, err := s.get("compute/limits")
	err = errors.Join(err,
		has("server", server, object{
			"OS-EXT-STS:vm_state": "shelved_offloaded", "hostId": "", "OS-EXT-AZ:availability_zone": "", "progress": nil,
		}),
		same("addresses", field(before, "addresses"), field(server, "addresses")),
		same("used", field(field(used, "limits"), "absolute"), field(field(limits, "limits"), "absolute")))
	for _, r := range []struct{ action, message string }{
		{`{"os-start":null}`, "Instance ID is not ready"},
		{`{"os-stop":null}`, "Instance ID is not ready"},
		{`{"reboot":{"type":"HARD"}}`, "Cannot 'reboot' instance ID while it is in vm_state shelved_offloaded"},
		{`{"shelve":null}`, "Cannot 'shelve' instance ID while it is in vm_state shelved_offloaded"},
	} {
		err = errors.Join(err, s.refused(refusal{
			method: http.MethodPost, path: "compute/servers/{server}/action", body: r.action,
			status: 409, kind: "conflictingRequest", message: r.message,
		}))
	}
	_, e = s.want(http.StatusNoContent, http.MethodDelete, "compute/servers/{server}", "")
	return errors.Join(err, e, s.gone())
}

// step is an action, with the states that a server goes through after it.
type step struct {
	action string
	states []string
}

// story makes a server and carries out steps on it.
func (s *session) story(steps ...step) error {
	if err := s.running(); err != nil {
		return err
	}
	for _, step := range steps {
		if err := s.act(step.action); err != nil {
			return err
		}
		if _, err := s.through(step.states...); err != nil {
			return fmt.Errorf("%s: %w", step.action, err)
		}
	}
	return nil
}

func rebuildKeeps(s *session) error {
	if err := s.running(); err != nil {
		return err
	}
	before, err := s.show()
	if err != nil {
		return err
	}
	a, err := s.want(http.StatusAccepted, http.MethodPost, "compute/servers/{server}/action",
		`{"rebuild":{"imageRef":"{node-v2}"}}`)
	if err != nil {
		return err
	}
	after, err := s.through("REBUILD", "ACTIVE")
	return errors.Join(err,
		has("the answer", field(a.body, "server"), object{"status": "REBUILD"}),
		same("addresses", before["addresses"], after["addresses"]),
		has("image", field(after, "image"), object{"id": s.ids["{node-v2}"]}))
}

// noValidHost makes a server for which the scheduler finds no host. Only the answer for this server has the fault;
// lists omit it.
func noValidHost(s *session) error {
	s.name = "no-host"
	a, err := s.want(http.StatusAccepted, http.MethodPost, "compute/servers", s.server("{huge}", ""))
	if err != nil {
		return err
	}
	s.ids["{server}"] = text(field(a.body, "server"), "id")
	server, err := s.through("BUILD", "ERROR")
	if err != nil {
		return err
	}
	list, err := s.get("compute/servers/detail?name=^no-host$")
	if err != nil {
		return err
	}
	return errors.Join(
		has("fault", field(server, "fault"), object{"code": 500.0, "message": "No valid host was found. "}),
		has("server", server, object{"OS-EXT-STS:vm_state": "error", "addresses": object{}, "hostId": "",
			"OS-EXT-STS:power_state": 0.0, "OS-EXT-AZ:availability_zone": "", "security_groups": nil}),
		same("fault in the list", nil, first(list, "servers")["fault"]),
		s.refused(refusal{method: http.MethodPost, path: "compute/servers/{server}/action",
			body: `{"reboot":{"type":"SOFT"}}`, status: 409, kind: "conflictingRequest",
			message: "Cannot 'reboot' instance ID while it is in vm_state error"}),
		s.refused(refusal{method: http.MethodPost, path: "compute/servers/{server}/action",
			body: `{"reboot":{"type":"HARD"}}`, status: 409, kind: "conflictingRequest",
			message: "Instance ID is in an invalid state for 'reboot'"}),
		s.refused(refusal{method: http.MethodPost, path: "compute/servers/{server}/action",
			body: `{"rebuild":{"imageRef":"{node-v2}"}}`, status: 409, kind: "conflictingRequest",
			message: "Instance ID is in an invalid state for 'rebuild'"}),
		s.refused(refusal{method: http.MethodPost, path: "compute/servers/{server}/action",
			body: `{"os-getConsoleOutput":{}}`, status: 409, kind: "conflictingRequest",
			message: "Instance ID is not ready"}),
	)
}

// snapshot makes an image of a server and waits until it is active.
func snapshot(s *session) error {
	if err := s.running(); err != nil {
		return err
	}
	a, err := s.want(http.StatusAccepted, http.MethodPost, "compute/servers/{server}/action",
		`{"createImage":{"name":"check"}}`)
	if err != nil {
		return err
	}
	s.ids["{snapshot}"] = text(a.body, "image_id")
	_, err = s.through("ACTIVE")
	i, e := s.get("image/images/{snapshot}")
	_, d := s.want(http.StatusNoContent, http.MethodDelete, "image/images/{snapshot}", "")
	return errors.Join(err, e, d, has("image", i, object{
		"visibility": "private", "image_type": "snapshot", "name": "check", "instance_uuid": s.ids["{server}"],
		"base_image_ref": s.ids["{node-v1}"], "status": "active",
	}))
}

// hasPrefix returns an error unless the text begins with the prefix.
func hasPrefix(what, text, prefix string) error {
	if strings.HasPrefix(text, prefix) {
		return nil
	}
	return fmt.Errorf("%s is %q, want %q…", what, text, prefix)
}
