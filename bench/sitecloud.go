package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// client calls the API of a site's cloud, without a connection.
type client struct {
	cloud     *labcloud.Cloud
	token     string
	networkID string
}

func newClient(cloud *labcloud.Cloud) (client, error) {
	c := client{cloud: cloud}
	response, err := c.call("POST", "/identity/v3/auth/tokens", map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{
			"user": map[string]any{"name": "lab", "password": "lab", "domain": map[string]any{"name": "Default"}},
		}},
		"scope": map[string]any{"project": map[string]any{"name": "lab", "domain": map[string]any{"name": "Default"}}},
	}}, nil)
	if err != nil {
		return c, err
	}
	c.token = response.Get("X-Subject-Token")
	c.networkID, err = c.network()
	return c, err
}

func (c client) call(method, path string, body, into any) (http.Header, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request := httptest.NewRequest(method, path, strings.NewReader(string(text)))
	request.Header.Set("X-Auth-Token", c.token)
	request.Header.Set("X-OpenStack-Nova-API-Version", "2.79")
	w := httptest.NewRecorder()
	c.cloud.Handler().ServeHTTP(w, request)
	if w.Code >= 400 {
		return nil, fmt.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	if into != nil {
		err = json.Unmarshal(w.Body.Bytes(), into)
	}
	return w.Header(), err
}

// made has the ids of a node's port and server in the cloud.
type made struct{ port, mac, address, server string }

// node makes a node's port, and its server if it has one, as the root module does.
func (c client) node(name string, groups []any, server bool) (made, error) {
	var p struct {
		Port struct {
			ID       string
			MAC      string `json:"mac_address"`
			FixedIPs []struct {
				Address string `json:"ip_address"`
			} `json:"fixed_ips"`
		}
	}
	_, err := c.call("POST", "/network/v2.0/ports", map[string]any{"port": map[string]any{
		"name": name, "description": "Slurm cluster bench", "network_id": c.networkID, "admin_state_up": true,
		"security_groups": groups,
	}}, &p)
	if err != nil {
		return made{}, err
	}
	m := made{port: p.Port.ID, mac: p.Port.MAC, address: p.Port.FixedIPs[0].Address, server: "none"}
	if !server {
		return m, nil
	}
	var s struct{ Server struct{ ID string } }
	_, err = c.call("POST", "/compute/v2.1/servers", map[string]any{"server": map[string]any{
		"name": name, "imageRef": siteImage, "flavorRef": siteFlavor, "key_name": "bench",
		"metadata": map[string]any{"eiffel_cluster": "bench", "eiffel_group": siteGroup},
		"networks": []any{map[string]any{"port": m.port}},
	}}, &s)
	m.server = s.Server.ID
	return m, err
}

// remove removes a server and its port.
func (c client) remove(ctx context.Context, server, port string) error {
	if _, err := c.call("DELETE", "/compute/v2.1/servers/"+server, nil, nil); err != nil {
		return err
	}
	err := until(ctx, patience, 50*time.Millisecond, "the seed's server is gone", func() (bool, error) {
		return !slices.ContainsFunc(c.cloud.Servers(), func(s labcloud.Server) bool { return s.ID == server }), nil
	})
	if err != nil {
		return err
	}
	_, err = c.call("DELETE", "/network/v2.0/ports/"+port, nil, nil)
	return err
}

// active waits until all servers are ACTIVE.
func (c client) active(ctx context.Context) error {
	return until(ctx, patience, 50*time.Millisecond, "all servers are ACTIVE", func() (bool, error) {
		return !slices.ContainsFunc(c.cloud.Servers(), func(s labcloud.Server) bool { return s.Status != "ACTIVE" }), nil
	})
}

// network returns the id of the cloud's network.
func (c client) network() (string, error) {
	var found struct{ Networks []struct{ ID string } }
	_, err := c.call("GET", "/network/v2.0/networks?name=cluster", nil, &found)
	if err == nil && len(found.Networks) != 1 {
		err = fmt.Errorf("%d networks", len(found.Networks))
	}
	if err != nil {
		return "", err
	}
	return found.Networks[0].ID, nil
}

// address returns the address of the port with a name.
func (c client) address(name string) (string, error) {
	var found struct {
		Ports []struct {
			FixedIPs []struct {
				Address string `json:"ip_address"`
			} `json:"fixed_ips"`
		}
	}
	_, err := c.call("GET", "/network/v2.0/ports?name="+name, nil, &found)
	if err == nil && len(found.Ports) != 1 {
		err = fmt.Errorf("%d ports of %s", len(found.Ports), name)
	}
	if err != nil {
		return "", err
	}
	return found.Ports[0].FixedIPs[0].Address, nil
}
