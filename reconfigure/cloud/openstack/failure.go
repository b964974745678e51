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

// failure is an error of the cloud's API for people: the service's message, without the addresses of the API and of
// its hosts. The cause has the addresses, for a log.
type failure struct {
	words string
	cause error
}

func (f *failure) Error() string { return f.words }

// Unwrap returns the error of gophercloud or of Go's HTTP client.
func (f *failure) Unwrap() error { return f.cause }

// failed returns the error of a failed call, with its class.
func (c *Client) failed(what string, err error) error {
	return reconfigure.Classify(classOf(err), fmt.Errorf("%s cloud %q: %w", what, c.config.Cloud, plain(err)))
}

// plain converts an error of the API to a failure. It returns other errors unchanged.
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

// ended returns the end of the caller's context as text; empty if err is another error.
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
		const what = "the token has expired, and the new login failed: "
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
		return "its certificate is rejected: " + certificate.Err.Error()
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
	// A network error has addresses; the system error in it has none.
	if system, ok := errors.AsType[*os.SyscallError](err); ok {
		return "no answer: " + system.Err.Error()
	}
	if network, ok := errors.AsType[*net.OpError](err); ok && network.Err != nil {
		return "no answer: " + network.Err.Error()
	}
	return "no answer: " + call.Err.Error()
}

// describeAnswer returns a service's message for a status code: {"forbidden": {"message": "Quota exceeded", "code":
// 403}}, or {"message": …} or plain text. A proxy in front of the service answers in HTML, which is ignored.
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

// classOf returns the class of an error of gophercloud or Go's HTTP client. The call was retried before (see retry),
// so the fault will not pass within moments.
func classOf(err error) reconfigure.Class {
	code := 0
	if answer, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		code = answer.Actual
	}
	if shown, ok := errors.AsType[*failure](err); ok {
		err = shown.cause
	}
	return answerClass(code, err.Error())
}
