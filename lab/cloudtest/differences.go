package cloudtest

import (
	"errors"
	"net/http"
)

// Difference is a check that a cloud does not pass.
type Difference struct {
	// Cloud is the cloud's name, Check the check's.
	Cloud, Check string
	// Reason says why.
	Reason string
}

// Differences are all checks that one of the clouds does not pass.
func Differences() []Difference {
	const onPurpose = "labcloud refuses what it does not know, so that no test passes by an ignored request"
	return []Difference{
		{"openstack", "a snapshot becomes an image", "Nova's fake driver copies no disk: the image stays queued"},
		{"openstack", "floating IPs are listed", "its Neutron has no router service"},
		{"labcloud", "an unknown filter of servers is ignored", onPurpose},
		{"labcloud", "two servers in one request", "neither Terraform's provider nor reconfigure asks for it"},
		{"labcloud", "a network and a subnet are made", "its networks are those of its configuration"},
		{"labcloud", "a member may not change the quota", "its one user is its administrator too"},
		{"labcloud", "a page of no servers", "nobody asks for it; labcloud takes it as no limit"},
		{"labcloud", "user data with other characters than Base64",
			"Nova drops these characters; a client that sends them has made a mistake"},
	}
}

// extras are the checks of features that one of the clouds lacks.
func extras() []check {
	return []check{
		{name: "floating IPs are listed", run: func(s *session) error {
			_, err := s.get("network/floatingips")
			return err
		}},
		{name: "an unknown filter of servers is ignored", run: func(s *session) error {
			s.version = "2.74" // later versions reject it
			_, err := s.get("compute/servers?colour=red")
			return err
		}},
		{name: "two servers in one request", run: func(s *session) error {
			_, err := s.want(http.StatusAccepted, http.MethodPost, "compute/servers",
				s.server("{huge}", `,"min_count":2,"max_count":2`))
			for _, name := range []string{"check-1", "check-2"} {
				list, e := s.get("compute/servers?name=^" + name + "$")
				err = errors.Join(err, e, same(name, 1, len(items(list, "servers"))))
				for _, id := range values(items(list, "servers"), "id") {
					_, e := s.want(http.StatusNoContent, http.MethodDelete, "compute/servers/"+id, "")
					err = errors.Join(err, e)
				}
			}
			return err
		}},
		{name: "a network and a subnet are made", run: func(s *session) error {
			a, err := s.want(http.StatusCreated, http.MethodPost, "network/networks", `{"network":{"name":"check"}}`)
			if err != nil {
				return err
			}
			s.ids["{network}"] = text(field(a.body, "network"), "id")
			_, err = s.want(http.StatusCreated, http.MethodPost, "network/subnets",
				`{"subnet":{"network_id":"{network}","ip_version":4,"cidr":"10.61.0.0/16"}}`)
			_, e := s.want(http.StatusNoContent, http.MethodDelete, "network/networks/{network}", "")
			return errors.Join(err, e)
		}},
		{name: "a member may not change the quota", run: func(s *session) error {
			_, err := s.want(http.StatusForbidden, http.MethodPut, "compute/os-quota-sets/{project}",
				`{"quota_set":{"cores":-1}}`)
			return err
		}},
		{name: "a page of no servers", reads: true, run: func(s *session) error {
			list, err := s.get("compute/servers?limit=0")
			return errors.Join(err, same("servers", 0, len(items(list, "servers"))))
		}},
		{name: "user data with other characters than Base64", run: func(s *session) error {
			_, err := s.create(`,"user_data":"???"`)
			return err
		}},
	}
}
