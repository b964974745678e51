package labcloud

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// microversion is the minor number of a version of Nova's API; the major number is always 2.
type microversion int

const (
	oldest microversion = 1
	// newest is the microversion of Zed, the release from which the answers were recorded.
	newest microversion = 93
)

func (v microversion) String() string { return "2." + strconv.Itoa(int(v)) }

// wellFormed matches the syntax of a version, including versions that do not exist.
var wellFormed = regexp.MustCompile(`^[1-9][0-9]*\.(0|[1-9][0-9]*)$`)

// negotiate finds the microversion of a request. Without a header, it is the oldest. As in Nova, the newer header takes
// precedence over the older one.
func negotiate(h http.Header) (microversion, error) {
	asked := h.Get("X-OpenStack-Nova-API-Version")
	for _, value := range strings.Split(h.Get("OpenStack-API-Version"), ",") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(value), "compute "); ok {
			asked = v
		}
	}
	switch asked {
	case "":
		return oldest, nil
	case "latest":
		return newest, nil
	}
	if !wellFormed.MatchString(asked) {
		return 0, badRequest("API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", asked)
	}
	minor, ok := strings.CutPrefix(asked, "2.")
	n, err := strconv.Atoi(minor)
	if !ok || err != nil || microversion(n) < oldest || microversion(n) > newest {
		return 0, &problem{code: http.StatusNotAcceptable, message: fmt.Sprintf(
			"Version %s is not supported by the API. Minimum is %s and maximum is %s.", asked, oldest, newest)}
	}
	return microversion(n), nil
}
