// Package openstack asks the cloud itself, beside Terraform: what names mean now, which servers the cluster has, and
// what their consoles say. It makes nothing, and removes only what Terraform does not know.
//
// Every call may be repeated: it reads, logs in, reboots, or removes. So a call that the cloud answers with a limit, a
// fault of its own, or not at all is repeated a few times, whatever its method.
package openstack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// microversion is the Nova API that we speak, of the Train release (2019). Nova has kept every version since, so the
// answers have the same form on every cloud, older or newer than its own default would have them (Nova's REST API
// Version History).
const microversion = "2.79"

// Config says which cloud, and which of its servers are ours.
type Config struct {
	Cloud      string // entry of clouds.yaml
	CloudsFile string // path of clouds.yaml; empty: $OS_CLIENT_CONFIG_FILE, else where OpenStack's own client looks
	Cluster    string // the cluster's name, which is not unique
	Identity   reconfigure.Identity
}

// tempo is how long we wait for what.
type tempo struct {
	tries    uint          // of one call, the first included
	pause    time.Duration // before the second; it doubles with each
	longest  time.Duration // such pause, a Retry-After of the cloud's included
	answer   time.Duration // until the answer to a call begins
	soonest  time.Duration // between two looks at a server, at first
	poll     time.Duration // between two looks at a server, later
	rebooted time.Duration // until a server that was rebooted is ACTIVE again
	gone     time.Duration // until a server that was removed is gone
}

// usual is for real clouds. Nova makes a soft reboot that takes longer than two minutes a hard one by itself
// (nova.conf, wait_soft_reboot_seconds).
func usual() tempo {
	return tempo{
		tries: 6, pause: time.Second, longest: 30 * time.Second, answer: time.Minute,
		soonest: 300 * time.Millisecond, poll: 2 * time.Second, rebooted: 4 * time.Minute, gone: 4 * time.Minute,
	}
}

// Client is logged in to a cloud. It is safe for concurrent use, and logs in again by itself when its token is over.
type Client struct {
	config                   Config
	tempo                    tempo
	compute, network, images *gophercloud.ServiceClient
}

// New logs in. Whether a second try helps depends on the error, as for every call of the client's: the cloud may be
// away, or not like us.
func New(ctx context.Context, config Config) (*Client, error) {
	return connect(ctx, config, usual())
}

// Configured returns an error if the file of clouds or the cloud's entry in it is missing or cannot be read. It does
// not ask the cloud.
func Configured(config Config) error {
	_, _, _, err := find(config)
	return err
}

func find(config Config) (gophercloud.AuthOptions, gophercloud.EndpointOpts, *tls.Config, error) {
	options := []clouds.ParseOption{clouds.WithCloudName(config.Cloud)}
	if config.CloudsFile != "" {
		options = append(options, clouds.WithLocations(config.CloudsFile))
	}
	auth, endpoint, tlsConfig, err := clouds.Parse(options...)
	if err != nil {
		err = fmt.Errorf("find cloud %q: %w", config.Cloud, err)
	}
	return auth, endpoint, tlsConfig, err
}

func connect(ctx context.Context, config Config, t tempo) (*Client, error) {
	c := &Client{config: config, tempo: t}
	auth, endpoint, tlsConfig, err := find(config)
	if err != nil {
		return nil, err
	}
	provider, err := openstack.NewClient(auth.IdentityEndpoint)
	if err != nil {
		return nil, c.failed("find", err)
	}
	provider.HTTPClient = http.Client{Transport: transport(tlsConfig, t.answer)}
	provider.UserAgent.Prepend("eiffel-reconfigure")
	provider.RetryFunc = c.retry
	auth.AllowReauth = auth.TokenID == "" // a token alone cannot get another one
	if err := openstack.Authenticate(ctx, provider, auth); err != nil {
		return nil, c.failed("log in to", err)
	}
	if err := c.services(provider, endpoint); err != nil {
		return nil, err
	}
	return c, nil
}

func transport(tlsConfig *tls.Config, answer time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: min(answer, 10*time.Second)}).DialContext,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: answer,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   20,
	}
}

func (c *Client) services(provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts) error {
	for _, service := range []struct {
		name string
		to   **gophercloud.ServiceClient
		make func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{"compute", &c.compute, openstack.NewComputeV2},
		{"network", &c.network, openstack.NewNetworkV2},
		{"image", &c.images, openstack.NewImageV2},
	} {
		var err error
		if *service.to, err = service.make(provider, endpoint); err != nil {
			return c.failed("find the "+service.name+" service of", err)
		}
	}
	c.compute.Microversion = microversion
	return nil
}

// retry is gophercloud's hook: the error ends the call, nil repeats it.
func (c *Client) retry(ctx context.Context, _, _ string, _ *gophercloud.RequestOpts, err error, failures uint) error {
	if ctx.Err() != nil || failures >= c.tempo.tries || !passing(err) {
		return err
	}
	wait := pause(c.tempo, failures, err)
	if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) < wait {
		return err // the caller learns why, and not only that its time has ended
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w while waiting to try again after: %w", ctx.Err(), err)
	case <-time.After(wait):
		return nil
	}
}

// passing reports whether a second attempt may succeed. Neutron, Nova and Glance answer 413 for a limit in old
// releases, with the time to wait.
func passing(err error) bool {
	if answer, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		codes := []int{
			http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
			http.StatusGatewayTimeout,
		}
		limited := answer.Actual == http.StatusRequestEntityTooLarge && answer.ResponseHeader.Get("Retry-After") != ""
		return limited || slices.Contains(codes, answer.Actual)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	_, lost := errors.AsType[*url.Error](err)
	return lost || errors.Is(err, io.ErrUnexpectedEOF)
}

// pause is how long to wait after so many failures. The half of it is chance, so that many callers that were refused
// together do not come back together.
func pause(t tempo, failures uint, err error) time.Duration {
	wait := t.longest
	if failures < 16 {
		wait = min(wait, t.pause<<(failures-1))
	}
	wait = wait/2 + rand.N(wait/2+1)
	if answer, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		if seconds, err := strconv.Atoi(answer.ResponseHeader.Get("Retry-After")); err == nil {
			wait = min(max(wait, time.Duration(seconds)*time.Second), t.longest)
		}
	}
	return wait
}
