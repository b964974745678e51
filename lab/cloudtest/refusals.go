package cloudtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// refusal is a rejected call with its error. In the message, the word ID stands for each id.
type refusal struct {
	method, path, body string
	status             int
	// kind is the type of the error: the only key of Nova's body, the type in Neutron's.
	kind, message string
}

// refused makes a call, which must fail with the refusal's error.
func (s *session) refused(r refusal) error {
	a, err := s.call(r.method, r.path, r.body)
	if err != nil {
		return err
	}
	var want any
	switch service, _, _ := strings.Cut(r.path, "/"); service {
	case "network":
		want = object{"NeutronError": object{"type": r.kind, "message": r.message, "detail": ""}}
	case "image":
		return errors.Join(same("status", r.status, a.status), contains(withoutIDs(a.text), r.message))
	default:
		want = object{r.kind: object{"code": float64(r.status), "message": r.message}}
	}
	var got any
	if err := json.Unmarshal([]byte(withoutIDs(a.text)), &got); err != nil {
		got = a.text
	}
	return errors.Join(same(r.method+" "+r.path+" "+r.body+": status", r.status, a.status), same("refusal", want, got))
}

func contains(text, part string) error {
	if strings.Contains(text, part) {
		return nil
	}
	return fmt.Errorf("no %q in %q", part, text)
}

// refusals are invalid calls with the errors of the services.
func refusals() []check {
	const (
		action    = "compute/servers/{server}/action"
		bad       = "badRequest"
		conflicts = "conflictingRequest"
		missing   = "itemNotFound"
		get       = http.MethodGet
		post      = http.MethodPost
	)
	create := func(name, image, flavor, rest string) string {
		return fmt.Sprintf(`{"server":{"name":"%s","imageRef":"%s","flavorRef":"%s",%s}}`, name, image, flavor, rest)
	}
	const net = `"networks":[{"uuid":"{cluster}"}]`
	var all []check
	for name, r := range map[string]refusal{
		"a server that is not there": {get, "compute/servers/{absent}", "", 404, missing,
			"Instance ID could not be found."},
		"a flavor that is not there": {get, "compute/flavors/nope", "", 404, missing, "Flavor nope could not be found."},
		"a key that is not there": {get, "compute/os-keypairs/nope", "", 404, missing,
			"Keypair nope not found for user ID"},
		"a key that is none": {post, "compute/os-keypairs", `{"keypair":{"name":"x","public_key":"none"}}`, 400, bad,
			"Keypair data is invalid: failed to generate fingerprint"},
		"an image that is not there": {get, "image/images/{absent}", "", 404, "", "No image found with ID ID"},
		"a server of an unknown image": {post, "compute/servers", create("x", "{absent}", "{small}", net), 400, bad,
			"Can not find requested image"},
		"a server of an unknown flavor": {post, "compute/servers", create("x", "{node-v1}", "999", net), 400, bad,
			"Flavor 999 could not be found."},
		"a server of an unknown network": {post, "compute/servers",
			create("x", "{node-v1}", "{small}", `"networks":[{"uuid":"{absent}"}]`), 400, bad,
			"Network ID could not be found."},
		"a server of an unknown port": {post, "compute/servers",
			create("x", "{node-v1}", "{small}", `"networks":[{"port":"{absent}"}]`), 400, bad,
			"Port id ID could not be found."},
		"a server of an unknown key": {post, "compute/servers",
			create("x", "{node-v1}", "{small}", net+`,"key_name":"nope"`), 400, bad, "Invalid key_name provided."},
		"a server without a name": {post, "compute/servers", create("", "{node-v1}", "{small}", net), 400, bad,
			"Invalid input for field/attribute name. Value: . '' is too short"},
		"a server in an unknown zone": {post, "compute/servers",
			create("x", "{node-v1}", "{small}", net+`,"availability_zone":"moon"`), 400, bad,
			"The requested availability zone is not available"},
		"a server of an unknown security group": {post, "compute/servers",
			create("x", "{node-v1}", "{small}", net+`,"security_groups":[{"name":"nope"}]`), 400, bad,
			"Unable to find security_group with name or id 'nope'"},
		"a list from an unknown marker": {get, "compute/servers?marker={absent}", "", 400, bad,
			"marker [ID] not found"},
		"an unknown filter of servers": {get, "compute/servers?colour=red", "", 400, bad,
			"'colour' does not match any of the regexes: '^_'"},
		"a page of no number": {get, "compute/servers?limit=x", "", 400, bad,
			"Invalid input for query parameters limit. Value: x. 'x' does not match '^[0-9]*$'"},
		"a stop of a server that is not there": {post, "compute/servers/{absent}/action", `{"os-stop":null}`, 404,
			missing, "Instance ID has no mapping to a cell."},
		"a page of a number below zero": {get, "compute/servers?limit=-1", "", 400, bad,
			"Invalid input for query parameters limit. Value: -1. '-1' does not match '^[0-9]*$'"},
		"a name that is no regular expression": {get, "compute/servers?name=(", "", 400, bad,
			"Invalid input for query parameters name. Value: (. '(' is not a 'regex'"},
		"tags of a server that is not there": {get, "compute/servers/{absent}/tags", "", 404, missing,
			"Instance ID has no mapping to a cell."},
		"an action on a server that is not there": {post, "compute/servers/{absent}/action",
			`{"reboot":{"type":"HARD"}}`, 404, missing, "Instance ID could not be found."},
	} {
		all = append(all, check{name: "refused: " + name, run: refusedBy(r)})
	}
	for name, r := range map[string]refusal{
		"the start of a server that runs": {post, action, `{"os-start":null}`, 409, conflicts,
			"Cannot 'start' instance ID while it is in vm_state active"},
		"the unshelving of a server that runs": {post, action, `{"unshelve":null}`, 409, conflicts,
			"Cannot 'unshelve' instance ID while it is in vm_state active"},
		"to confirm no resize": {post, action, `{"confirmResize":null}`, 409, conflicts,
			"Cannot 'confirmResize' instance ID while it is in vm_state active"},
		"to revert no resize": {post, action, `{"revertResize":null}`, 409, conflicts,
			"Cannot 'revertResize' instance ID while it is in vm_state active"},
		"a resize to the same flavor": {post, action, `{"resize":{"flavorRef":"{small}"}}`, 400, bad,
			"When resizing, instances must change flavor!"},
		"a resize to an unknown flavor": {post, action, `{"resize":{"flavorRef":"999"}}`, 400, bad,
			"Flavor 999 could not be found."},
		"a rebuild with an unknown image": {post, action, `{"rebuild":{"imageRef":"{absent}"}}`, 400, bad,
			"Cannot find image for rebuild"},
		"an unknown reboot": {post, action, `{"reboot":{"type":"WARM"}}`, 400, bad,
			"Invalid input for field/attribute type. Value: WARM. 'WARM' is not one of " +
				"['HARD', 'Hard', 'hard', 'SOFT', 'Soft', 'soft']"},
		"an unknown action": {post, action, `{"dance":null}`, 400, bad, "There is no such action: dance"},
		"an unknown metadatum": {get, "compute/servers/{server}/metadata/nope", "", 404, missing,
			"Metadata item was not found"},
		"a metadatum under another name": {http.MethodPut, "compute/servers/{server}/metadata/a",
			`{"meta":{"b":"1"}}`, 400, bad, "Request body and URI mismatch"},
		"an unknown tag": {http.MethodDelete, "compute/servers/{server}/tags/nope", "", 404, missing,
			"Instance ID has no tag 'nope'"},
		"an unknown interface": {get, "compute/servers/{server}/os-interface/{absent}", "", 404, missing,
			"Port id ID could not be found."},
		"a console of no length": {post, action, `{"os-getConsoleOutput":{"length":"x"}}`, 400, bad,
			"Invalid input for field/attribute length. Value: x. 'x' does not match '^-?[0-9]+$'"},
	} {
		all = append(all, check{name: "refused: " + name, run: refusedBy(r), reads: true})
	}
	slices.SortFunc(all, func(a, b check) int { return strings.Compare(a.name, b.name) })
	return append(all,
		check{name: "refused: no token", run: func(s *session) error {
			a, err := s.send(get, "compute/servers", "", func(http.Header) {})
			return errors.Join(err, same("status", 401, a.status), same("refusal", object{"error": object{
				"code": 401.0, "title": "Unauthorized", "message": "The request you have made requires authentication.",
			}}, a.body))
		}},
		check{name: "refused: a wrong password", run: func(s *session) error {
			a, err := s.call(post, "identity/auth/tokens", `{"auth":{"identity":{"methods":["password"],`+
				`"password":{"user":{"name":"operator","password":"wrong","domain":{"id":"default"}}}}}}`)
			return errors.Join(err, same("status", 401, a.status), same("refusal", object{"error": object{
				"code": 401.0, "title": "Unauthorized", "message": "The request you have made requires authentication.",
			}}, a.body))
		}},
		check{name: "refused: a microversion that is too new", run: func(s *session) error {
			s.version = "2.999"
			return s.refused(refusal{get, "compute/servers", "", 406, "computeFault",
				"Version 2.999 is not supported by the API. Minimum is 2.1 and maximum is 2.93."})
		}},
		check{name: "refused: a microversion that is none", run: func(s *session) error {
			s.version = "two"
			return s.refused(refusal{get, "compute/servers", "", 400, bad,
				"API Version String two is of invalid format. Must be of format MajorNum.MinorNum."})
		}},
		check{name: "refused: tags before microversion 2.26", reads: true, run: func(s *session) error {
			s.version = "2.25"
			return s.refused(refusal{get, "compute/servers/{server}/tags", "", 404, missing,
				"The resource could not be found."})
		}},
		check{name: "refused: a server without networks", run: func(s *session) error {
			a, err := s.call(post, "compute/servers", create("x", "{node-v1}", "{small}", `"metadata":{}`))
			return errors.Join(err, same("status", 400, a.status),
				contains(a.text, "'networks' is a required property"))
		}},
		check{name: "refused: user data that is not Base64", run: func(s *session) error {
			a, err := s.call(post, "compute/servers", s.server("{small}", `,"user_data":"a"`))
			return errors.Join(err, same("status", 400, a.status),
				contains(a.text, "Invalid input for field/attribute user_data. Value: a. 'a' is not a 'base64'"))
		}},
	)
}
