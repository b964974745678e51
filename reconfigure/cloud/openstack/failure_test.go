package openstack

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func answer(code int, body string) error {
	return gophercloud.ErrUnexpectedResponseCode{
		URL: "http://10.0.0.1:8774/v2.1/servers", Method: "POST", Expected: []int{202}, Actual: code, Body: []byte(body),
	}
}

func TestErrorsAreForPeopleAndKeepTheirCause(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "http://10.0.0.1:8774/v2.1", Err: &net.OpError{
		Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8774},
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
	}}
	late := &url.Error{Op: "Get", URL: "http://10.0.0.1", Err: &net.OpError{
		Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded,
	}}
	nameless := &url.Error{Op: "Get", URL: "http://api", Err: &net.OpError{
		Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "api", Server: "10.0.0.2:53"},
	}}
	login := answer(401, `{"error": {"message": "The request you have made requires authentication."}}`)
	again := answer(500, "")
	for name, test := range map[string]struct {
		cause error
		want  string
		class reconfigure.Class
	}{
		"Nova's refusal": {
			answer(403, `{"forbidden": {"code": 403, "message": "Quota exceeded for cores: Requested 1"}}`),
			"403 Forbidden: Quota exceeded for cores: Requested 1", reconfigure.ClassQuota,
		},
		"Neutron's refusal": {
			answer(409, `{"NeutronError": {"message": "Quota exceeded for resources: ['port'].", "detail": ""}}`),
			"409 Conflict: Quota exceeded for resources: ['port'].", reconfigure.ClassQuota,
		},
		"a message alone":        {answer(400, `{"message": "bad"}`), "400 Bad Request: bad", reconfigure.ClassOther},
		"a web server's page":    {answer(503, "<p>at 10.0.0.1"), "503 Service Unavailable", reconfigure.ClassCloud},
		"plain text":             {answer(429, "slow\ndown"), "429 Too Many Requests: slow down", reconfigure.ClassRateLimit},
		"nothing":                {answer(500, ""), "500 Internal Server Error", reconfigure.ClassCloud},
		"a refused connection":   {refused, "connection refused", reconfigure.ClassCloud},
		"no answer":              {late, "no answer in time", reconfigure.ClassCloud},
		"a name without address": {nameless, "its name cannot be resolved: no such host", reconfigure.ClassCloud},
		"a login that fails": {
			&gophercloud.ErrUnableToReauthenticate{ErrReauth: login},
			"the token has expired, and the new login failed: " +
				"401 Unauthorized: The request you have made requires authentication.", reconfigure.ClassOther,
		},
		"after another login": {
			&gophercloud.ErrErrorAfterReauthentication{ErrOriginal: again}, "500 Internal Server Error", reconfigure.ClassCloud,
		},
		"another error": {errors.New("its status is unknown"), "its status is unknown", reconfigure.ClassOther},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Client{config: Config{Cloud: "here"}}
			err := c.failed("ask", fmt.Errorf("once more: %w", test.cause))
			want := `ask cloud "here": ` + test.want
			if text := strings.Replace(err.Error(), "once more: ", "", 1); text != want || strings.Contains(text, "10.0.0.") {
				t.Errorf("%s\nnot %s", text, want)
			}
			if shown, ok := errors.AsType[*failure](err); ok && !strings.Contains(shown.Unwrap().Error(), test.cause.Error()) {
				t.Errorf("the cause is lost: %v", shown.Unwrap())
			}
			if class := reconfigure.ClassOf(err); class != test.class {
				t.Errorf("class %s", class)
			}
		})
	}
}

// TestNoErrorHasAnAddressOfTheAPI calls a cloud that answers with errors, and then one that is unreachable.
func TestNoErrorHasAnAddressOfTheAPI(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	for _, call := range []string{
		"GET servers/detail", "GET servers/{id}", "GET limits", "GET flavors/detail",
		"GET images", "GET networks", "POST auth/tokens",
	} {
		l.order(labcloud.ServerError, call, 1000)
	}
	for _, err := range l.everyError() {
		if strings.Contains(err.Error(), "127.0.0.1") {
			t.Error(err)
		}
	}
	_, err := connect(t.Context(), Config{Cloud: "here", CloudsFile: l.file}, quick())
	if err == nil || strings.Contains(err.Error(), "127.0.0.1") {
		t.Error(err)
	}
}

// everyError calls each method, which must fail.
func (l *lab) everyError() []error {
	l.Helper()
	_, list := l.client.Servers(l.Context(), nodeset.NodeSet{})
	_, fault := l.client.Fault(l.Context(), absent)
	_, console := l.client.Console(l.Context(), absent, 1)
	_, room := l.client.Room(l.Context())
	resolved := l.client.Resolve(l.Context(), reconfigure.Source{Image: "i", Flavor: "f", Network: "n"})
	errs := []error{
		list, fault, console, room, l.client.Reboot(l.Context(), absent), errors.New(resolved.Err),
		l.client.RemoveServer(l.Context(), absent, "node1", time.Now()),
	}
	for i, err := range errs {
		if err == nil || err.Error() == "" {
			l.Errorf("no error of call %d", i)
		}
	}
	return errs
}
