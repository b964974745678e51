package labcloud

import (
	"fmt"
	"net/http"
)

// problem is an error answer with the words of its service.
type problem struct {
	code int
	// kind is Neutron's type of the error; the other services have no types.
	kind    string
	message string
	// retryAfter, in seconds, becomes a header of the same name.
	retryAfter int
}

func (p *problem) Error() string { return fmt.Sprintf("%d: %s", p.code, p.message) }

func badRequest(format string, args ...any) error {
	return &problem{code: http.StatusBadRequest, kind: "HTTPBadRequest", message: fmt.Sprintf(format, args...)}
}

func forbidden(format string, args ...any) error {
	return &problem{code: http.StatusForbidden, message: fmt.Sprintf(format, args...)}
}

func notFound(kind, format string, args ...any) error {
	return &problem{code: http.StatusNotFound, kind: kind, message: fmt.Sprintf(format, args...)}
}

func conflict(kind, format string, args ...any) error {
	return &problem{code: http.StatusConflict, kind: kind, message: fmt.Sprintf(format, args...)}
}

// unauthorized is every service's answer to a call without a valid token; Nova, Neutron and Glance share the middleware
// that gives it.
func unauthorized() *problem {
	return &problem{code: http.StatusUnauthorized, message: "The request you have made requires authentication."}
}

// novaName has Nova's type of an error by status code; all other codes have computeFault.
func novaName(code int) string {
	switch code {
	case http.StatusBadRequest:
		return "badRequest"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "itemNotFound"
	case http.StatusConflict:
		return "conflictingRequest"
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return "overLimit"
	case http.StatusNotImplemented:
		return "notImplemented"
	case http.StatusServiceUnavailable:
		return "serviceUnavailable"
	}
	return "computeFault"
}

// render returns an error in the form of its service.
func (p *problem) render(s service) (contentType string, body any) {
	const asJSON = "application/json"
	if p.code == http.StatusUnauthorized || s == identity {
		return asJSON, object{"error": object{
			"code": p.code, "title": http.StatusText(p.code), "message": p.message,
		}}
	}
	switch s {
	case compute:
		fault := object{"code": p.code, "message": p.message}
		if p.retryAfter > 0 {
			fault["retryAfter"] = fmt.Sprint(p.retryAfter)
		}
		return asJSON, object{novaName(p.code): fault}
	case network:
		return asJSON, object{"NeutronError": object{"type": p.kind, "message": p.message, "detail": ""}}
	case image:
		return "text/html; charset=UTF-8", glancePage(p)
	}
	return asJSON, object{"error": p.message}
}

// glancePage is the HTML page with which Glance answers errors.
func glancePage(p *problem) string {
	title := fmt.Sprintf("%d %s", p.code, http.StatusText(p.code))
	return fmt.Sprintf("<html>\n <head>\n  <title>%s</title>\n </head>\n <body>\n  <h1>%s</h1>\n  %s<br /><br "+
		"/>\n\n\n\n </body>\n</html>",
		title, title, p.message)
}
