package openstack

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// failure is an error of the cloud's API in words for people: what the service says, without the addresses of the API
// and of the hosts behind it. The cause has them, for a log.
type failure struct {
	words string
	cause error
}

func (f *failure) Error() string { return f.words }

// Unwrap is what gophercloud or Go's HTTP client said.
func (f *failure) Unwrap() error { return f.cause }

// failed is a failed call with its class.
func (c *Client) failed(what string, err error) error {
	return reconfigure.Classify(classOf(err), fmt.Errorf("%s cloud %q: %w", what, c.config.Cloud, plain(err)))
}

// plain gives an error of the API words for people. Any other stays as it is.
func plain(err error) error {
	if err == nil {
		return nil
	}
	words := describe(err)
	if words == "" {
		return err
	}
	if ended := ended(err); ended != "" {
		words = ended + " after: " + words
	}
	return &failure{words, err}
}

// ended is that the caller's context has ended, if it has.
func ended(err error) string {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return end.Error()
		}
	}
	return ""
}

func describe(err error) string {
	if login, ok := errors.AsType[*gophercloud.ErrUnableToReauthenticate](err); ok && login.ErrReauth != nil {
		const what = "the token is not valid any more, and logging in again failed: "
		return what + cmp.Or(describe(login.ErrReauth), login.ErrReauth.Error())
	}
	if answer, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		return describeAnswer(answer.Actual, answer.Body)
	}
	call, ok := errors.AsType[*url.Error](err)
	if !ok {
		return ""
	}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate is not accepted: " + certificate.Err.Error()
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return "its name cannot be resolved: " + name.Err
	}
	if call.Timeout() {
		return "no answer in time"
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "connection refused"
	}
	// An error of the network's has addresses; what the system says of it has none.
	if system, ok := errors.AsType[*os.SyscallError](err); ok {
		return "no answer: " + system.Err.Error()
	}
	if network, ok := errors.AsType[*net.OpError](err); ok && network.Err != nil {
		return "no answer: " + network.Err.Error()
	}
	return "no answer: " + call.Err.Error()
}

// describeAnswer is what a service says of a status code: {"forbidden": {"message": "Quota exceeded", "code": 403}}, or
// {"message": …} or plain text. A web server before it says nothing but HTML.
func describeAnswer(code int, body []byte) string {
	words := strings.TrimSpace(fmt.Sprint(code, " ", http.StatusText(code)))
	text := strings.TrimSpace(string(body))
	var document map[string]json.RawMessage
	if json.Unmarshal(body, &document) == nil {
		text = ""
		for _, part := range document {
			var problem struct {
				Message string `json:"message"`
			}
			if json.Unmarshal(part, &problem) == nil && problem.Message != "" {
				text = problem.Message
			}
		}
		if message := document["message"]; text == "" && message != nil {
			_ = json.Unmarshal(message, &text)
		}
	}
	const longest = 500
	if text == "" || strings.HasPrefix(text, "<") || len(text) > longest {
		return words
	}
	return words + ": " + strings.Join(strings.Fields(text), " ")
}

// classOf is the class of what gophercloud and Go's HTTP client say. The call was repeated often enough before (see
// retry) that it will not pass in a moment.
func classOf(err error) reconfigure.Class {
	code := 0
	if answer, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		code = answer.Actual
	}
	if shown, ok := errors.AsType[*failure](err); ok {
		err = shown.cause
	}
	return reconfigure.CloudClass(code, err.Error())
}
