package openstack

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// said is a status code and a message, with their class. The messages of Terraform's provider 1.54.1 and of gophercloud
// 2.15 were recorded from the lab's cloud; port numbers are removed. The others are from the sources of the services in
// the named releases.
type said struct {
	code  int // zero: there is no code
	words string
	class reconfigure.Class
}

const (
	postServers = `[POST http://192.0.2.20/compute/v2.1/servers]`
	postPorts   = `[POST http://192.0.2.20/network/v2.0/ports]`
)

func answers() map[string]said {
	const (
		quota, capacity, rate, cloud = reconfigure.ClassQuota, reconfigure.ClassCapacity, reconfigure.ClassRateLimit,
			reconfigure.ClassCloud
		missing, boot, unknown = reconfigure.ClassMissing, reconfigure.ClassBoot, reconfigure.ClassUnknown
	)
	return map[string]said{
		// Provider 1.54.1.
		"quota of Nova": {0, `Error creating OpenStack server: Request forbidden: ` + postServers +
			`, error message: {"forbidden":{"code":403,"message":"Quota exceeded for instances: Requested 1, but ` +
			`already used 2 of 2 instances"}}`, quota},
		"quota of Neutron": {0, `Error creating openstack_networking_port_v2: Expected HTTP response code [201 ` +
			`202] when accessing ` + postPorts + `, but got 409 instead {"NeutronError":{"detail":"","message":"Quota ` +
			`exceeded for resources: ['port'].","type":"OverQuota"}}`, quota},
		"throttled": {0, `Error creating OpenStack server: Too many requests have been sent in a given ` +
			`amount of time. Pause requests, wait up to one minute, and try again.`, rate},
		"throttled at login": {0, `Error creating OpenStack compute client: Too many requests have been sent in ` +
			`a given amount of time. Pause requests, wait up to one minute, and try again.`, rate},
		"internal error of Nova": {0, `Error creating OpenStack server: Internal Server Error`, cloud},
		"maintenance": {0, `Error creating OpenStack server: The service is currently unable to handle ` +
			`the request due to a temporary overloading or maintenance. This is a temporary condition. Try again ` +
			`later.`, cloud},
		"bad gateway":     {0, `Error creating OpenStack server: Bad Gateway`, unknown},
		"gateway timeout": {0, `Error creating OpenStack server: Gateway Timeout`, unknown},
		"the answer is lost": {0, `Error creating OpenStack server: Post ` +
			`"http://192.0.2.20/compute/v2.1/servers": OpenStack connection error, retries exhausted. Aborting. Last ` +
			`error was: EOF`, unknown},
		"a rebuild of a killed worker": {0, `Invalid power_state for instance cc303de5-af4e-47e3-9b99-5171fd6e8bb2: ` +
			`REBUILD`, cloud},
		"no listener": {0, `Error creating OpenStack server: Post ` +
			`"http://192.0.2.20/compute/v2.1/servers": OpenStack connection error, retries exhausted. Aborting. Last ` +
			`error was: dial tcp 192.0.2.20:80: connect: connection refused`, cloud},
		"no image": {0, `Error creating OpenStack server: Bad request with: ` + postServers +
			`, error message: {"badRequest":{"code":400,"message":"Can not find requested image"}}`, missing},
		"no flavor": {0, `Error creating OpenStack server: Bad request with: ` + postServers +
			`, error message: {"badRequest":{"code":400,"message":"Flavor nope could not be found."}}`, missing},
		"no network": {0, `Error creating openstack_networking_port_v2: Resource not found: ` + postPorts +
			`, error message: {"NeutronError":{"detail":"","message":"Network 11111111-0000-4000-8000-000000000009 ` +
			`could not be found.","type":"NetworkNotFound"}}`, missing},
		"an instance in ERROR": {0, `Error waiting for instance (326211f3-c58e-46d9-81b0-f981c5017c39) to become ` +
			`ready: unexpected state 'ERROR', wanted target 'ACTIVE'. last error: %!s(<nil>)`, reconfigure.ClassOther},
		"not ACTIVE in time": {0, `Error waiting for instance (4af22d76-5a47-453e-b789-439fc66d73d2) to become ` +
			`ready: context deadline exceeded`, boot},
		"never ACTIVE": {0, `Error waiting for instance (326211f3-c58e-46d9-81b0-f981c5017c39) to become ` +
			`ready: timeout while waiting for state to become 'ACTIVE' (last state: 'BUILD', timeout: 15m0s)`, boot},
		"not ACTIVE, by the outer time limit": {0, `Error waiting for instance (3fe81bd1-7534-4c27-8aee-24baf13e7614) to ` +
			`become ready: timeout while waiting for state to become 'success' (timeout: 20s)`, boot},

		// gophercloud 2, which provider 3 uses too.
		"quota, by code": {403, `Expected HTTP response code [200 202] when accessing ` + postServers +
			`, but got 403 instead: {"forbidden": {"code": 403, "message": "Quota exceeded for cores, ram: Requested ` +
			`4, 8192, but already used 46, 90112 of 48, 98304 cores, ram"}}`, quota},
		"throttled, by code": {429,
			`Expected HTTP response code [200] when accessing [GET http://192.0.2.20/compute/v2.1/limits], but got ` +
				`429 instead: {"overLimit":{"code":429,"message":"This request was rate-limited.","retryAfter":"1"}}`,
			rate},
		"503, by code": {503,
			`Expected HTTP response code [200] when accessing [GET http://192.0.2.20/compute/v2.1/limits], but got ` +
				`503 instead: `, cloud},
		"502 to what only reads": {502,
			`Expected HTTP response code [200] when accessing [GET http://192.0.2.20/compute/v2.1/limits], but got ` +
				`502 instead: `, cloud},
		"502 to what changes": {502, `Expected HTTP response code [202] when accessing ` + postServers +
			`, but got 502 instead: `, unknown},
		"cut off while reading": {0, `Get "http://192.0.2.20/compute/v2.1/servers/detail": EOF`, cloud},
		"cut off while changing": {0,
			`Post "http://192.0.2.20/compute/v2.1/servers/1/action": read tcp 192.0.2.1:1->192.0.2.20:80: read: ` +
				`connection reset by peer`, unknown},
		"no answer to a change": {0,
			`Post "http://192.0.2.20/compute/v2.1/servers/1/action": net/http: timeout awaiting response headers`,
			unknown},
		"no such name": {0, `Get "http://cloud.example/": dial tcp: lookup cloud.example: no such host`,
			cloud},
		"a policy is not a quota": {403, `Expected HTTP response code [200 202] when accessing ` + postServers +
			`, but got 403 instead: {"forbidden": {"code": 403, "message": "Policy doesn't allow ` +
			`os_compute_api:servers:create to be performed."}}`, reconfigure.ClassOther},
		"a conflict is not a quota": {409,
			`{"conflictingRequest": {"code": 409, "message": "Cannot 'reboot' instance 1 while it is in task_state ` +
				`rebuilding"}}`, reconfigure.ClassOther},
		"not authenticated": {401, `{"error":{"code":401,"message":"The request you have made requires ` +
			`authentication."}}`, reconfigure.ClassOther},
		"a reboot of a deleted server": {404,
			`{"itemNotFound": {"code": 404, "message": "Instance 1 could not be found."}}`, reconfigure.ClassOther},
		"another error": {0, `the disk is full`, reconfigure.ClassOther},
		"no message":    {0, ``, reconfigure.ClassOther},
		"unified limits (Yoga)": {403,
			`{"forbidden": {"code": 403, "message": "Project 1 is over a limit for [Resource servers is over limit ` +
				`of 2 due to current usage 2 and delta 1]"}}`, quota},
		"quota before Juno": {413,
			`{"overLimit": {"code": 413, "message": "Quota exceeded for instances: Requested 1, but already used 10 ` +
				`of 10 instances", "retryAfter": "0"}}`, quota},
		"throttled before Juno": {413,
			`{"overLimit": {"code": 413, "message": "This request was rate-limited.", "details": "Only 10 POST ` +
				`request(s) can be made to * every minute.", "retryAfter": "42"}}`, rate},
		"throttled, without a message": {413, `{"overLimit": {"code": 413}}`, rate},
		// Some gateways call a rate limit a quota.
		"throttled, called a quota": {429, `{"message": "Quota exceeded for POST requests"}`, rate},
		"throttled as a quota, in words": {0,
			`Error creating OpenStack server: Expected HTTP response code [200 202] when accessing ` + postServers +
				`, but got 429 instead {"message": "Quota exceeded for POST requests"}`, rate},
		"throttled by 503": {503, `{"message": "API rate limit exceeded"}`, rate},
		"no free address": {409,
			`{"NeutronError": {"type": "IpAddressGenerationFailure", "message": "No more IP addresses available on ` +
				`network 1.", "detail": ""}}`, capacity},
	}
}

func TestClassOfACloudError(t *testing.T) {
	for name, s := range answers() {
		t.Run(name, func(t *testing.T) {
			if got := answerClass(s.code, s.words); got != s.class {
				t.Errorf("%s, want %s: %d %s", got, s.class, s.code, s.words)
			}
		})
	}
}

func TestClassOfAnInstanceInError(t *testing.T) {
	for words, want := range map[string]reconfigure.Class{
		"No valid host was found. ":                                      reconfigure.ClassCapacity,
		"No valid host was found. There are not enough hosts available.": reconfigure.ClassCapacity,
		"Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance " +
			"1.": reconfigure.ClassCapacity,
		// Nova checks the quota again after it has made the server
		"Quota exceeded for instances: Requested 1, but already used 10 of 10 instances": reconfigure.ClassQuota,
		"Maximum number of ports exceeded":                                               reconfigure.ClassQuota,
		"Build of instance 1 aborted: Too Many Requests (HTTP 429)":                      reconfigure.ClassRateLimit,
		"Build of instance 1 aborted: Image 1 could not be found.":                       reconfigure.ClassMissing,
		"Could not find any matching port for port 1":                                    reconfigure.ClassCloud,
		"Build of instance 1 aborted: Failed to allocate the network":                    reconfigure.ClassOther,
		// from the hypervisor, not an answer of the API
		"Internal Server Error": reconfigure.ClassOther,
	} {
		if got := faultClass(words); got != want {
			t.Errorf("%s, want %s: %s", got, want, words)
		}
	}
}

func TestWhatIsPublicHasNoAddresses(t *testing.T) {
	for name, a := range answers() {
		public := reconfigure.Public(a.words)
		for _, secret := range []string{"http://", "https://", "192.0.2", "cloud.example", "%!", "nil"} {
			if strings.Contains(public, secret) {
				t.Errorf("%s: %s", name, public)
			}
		}
	}
}

// A lack of room ends the attempts, so throttling must not be mistaken for it.
func TestThrottlingIsNeverALackOfRoom(t *testing.T) {
	var all []string
	for _, s := range answers() {
		all = append(all, s.words)
	}
	rapid.Check(t, func(r *rapid.T) {
		words := strings.Join(rapid.SliceOfN(rapid.SampledFrom(all), 1, 3).Draw(r, "words"), "; ")
		if got := answerClass(429, words); got != reconfigure.ClassRateLimit || got.NoRoom() ||
			!got.Passing() {
			r.Errorf("429 is %s", got)
		}
	})
}
