// Package openstack asks the cloud directly, in addition to Terraform: for the ids of names, the servers of the
// cluster and their console logs. It creates only images, and removes only what Terraform does not know.
//
// Every call may be retried. So the package itself retries a call a few times, with any HTTP method, if the cloud
// answers with a rate limit or a server error, or does not answer.
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
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// microversion is the Nova API that we speak, of the Train release (2019). Nova still supports every version since
// then, so the answers have the same form on every cloud (Nova's REST API Version History).
const microversion = "2.79"

// Config selects the cloud and the cluster's servers in it.
type Config struct {
	Cloud string // entry of clouds.yaml
	// path of clouds.yaml; empty: $OS_CLIENT_CONFIG_FILE, else the places where OpenStack's client looks
	CloudsFile string
	Cluster    string // the cluster's name, which is not unique
	Identity   reconfigure.Identity
}

// tempo has the time limits and intervals.
type tempo struct {
	tries    uint          // the attempts of one call, including the first
	pause    time.Duration // before the second attempt; it doubles with each
	longest  time.Duration // the longest such pause, also for the cloud's Retry-After
	answer   time.Duration // until the answer to a call begins
	soonest  time.Duration // between two polls of a server, at first
	poll     time.Duration // between two polls of a server, later
	rebooted time.Duration // until a server that was rebooted is ACTIVE again
	gone     time.Duration // until a server that was removed is gone
}

// usual returns the tempo for real clouds. Nova itself turns a soft reboot that takes longer than two minutes into a
// hard one (nova.conf, wait_soft_reboot_seconds).
func usual() tempo {
	return tempo{
		tries: 6, pause: time.Second, longest: 30 * time.Second, answer: time.Minute,
		soonest: 300 * time.Millisecond, poll: 2 * time.Second, rebooted: 4 * time.Minute, gone: 4 * time.Minute,
	}
}

// Client is logged in to a cloud. It is safe for concurrent use, and logs in again when its token expires.
type Client struct {
	config                   Config
	tempo                    tempo
	compute, network, images *gophercloud.ServiceClient
}

// New logs in. Whether a retry helps depends on the error, as for every call of a Client: the cloud may be
// unreachable, or reject the credentials.
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
	auth.AllowReauth = auth.TokenID == "" // a token alone cannot get a new token
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

// retry is gophercloud's hook: an error ends the call, nil retries it.
func (c *Client) retry(ctx context.Context, _, _ string, _ *gophercloud.RequestOpts, err error, failures uint) error {
	if ctx.Err() != nil || failures >= c.tempo.tries || !passing(err) {
		return err
	}
	wait := pause(c.tempo, failures, err)
	if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) < wait {
		return err // the caller gets the reason, not only the end of its context
	}
	if sleep.For(ctx, wait) != nil {
		return fmt.Errorf("%w while waiting to try again after: %w", ctx.Err(), err)
	}
	return nil
}

// passing reports whether a retry may succeed. Old releases of Neutron, Nova and Glance answer 413 for a rate limit,
// with the time to wait.
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

// pause returns the time to wait after a number of failures. Half of it is random, so that many callers that were
// rejected at the same time do not retry at the same time.
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
