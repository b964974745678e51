package openstack

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
)

// answerClass returns the class of a failed call to OpenStack, by its status code (zero if unknown) and its message.
// Errors of Terraform's provider have no code beside the text, so the messages of the services and of the client
// libraries count too; class_test.go has recorded messages.
//
// Throttling is checked first: some of its messages mention a quota or a limit, and it must not be mistaken for a lack
// of room. Nova reports an exhausted quota as 403, and before its Juno release (2014) as 413, like throttling; Neutron
// reports it as 409.
func answerClass(code int, words string) reconfigure.Class {
	if code == 0 {
		code = codeIn(words)
	}
	class := faultClass(words)
	switch {
	case code == 429:
		return reconfigure.ClassRateLimit
	case class != reconfigure.ClassOther:
		return class
	case code == 413:
		return reconfigure.ClassRateLimit
	case code == 502 || code == 504:
		return cloud.LostAnswer(words) // from a gateway: the service behind it may have made the change
	case code >= 500 || code == 408:
		return reconfigure.ClassCloud
	}
	return cloud.ConnectionClass(words)
}

// faultClass returns the class of the fault message of an instance in ERROR. The code of such a fault is nearly always
// 500.
func faultClass(words string) reconfigure.Class {
	switch {
	case throttled.MatchString(words):
		return reconfigure.ClassRateLimit
	case overQuota.MatchString(words):
		return reconfigure.ClassQuota
	case noRoom.MatchString(words):
		return reconfigure.ClassCapacity
	case notThere.MatchString(words):
		return reconfigure.ClassMissing
	case neverActive.MatchString(words):
		return reconfigure.ClassBoot
	case noPort.MatchString(words), changing.MatchString(words):
		return reconfigure.ClassCloud
	}
	return reconfigure.ClassOther
}

// Messages of OpenStack and of gophercloud (both major versions).
var (
	throttled = regexp.MustCompile(`(?i)too many requests|rate[- ]?limit`)
	overQuota = regexp.MustCompile(`(?i)quota exceeded|quota_exceeded|overquota|is over a limit for|maximum number ` +
		`of ports exceeded`)
	noRoom = regexp.MustCompile(`(?i)no valid host|exceeded maximum number of retries|insufficient compute ` +
		`resources|no more ip addresses available`)
	notThere = regexp.MustCompile(`(?i)can not find requested image|(image|flavor|network) \S+ could not be found`)
	// The provider has two equal time limits, one around the other. The message of the outer one names no status.
	neverActive = regexp.MustCompile(`to become ready: (context deadline exceeded|timeout while waiting for state)|` +
		`timeout while waiting for state to become 'ACTIVE'`)
	// Nova removes a port that it has made together with its server, so the first replacement of an adopted instance
	// finds no port. The next attempt makes one.
	noPort = regexp.MustCompile(`(?i)could not find any matching port`)
	// The provider cannot read an instance while Nova rebuilds, reboots or resizes it, for example since a worker was
	// killed.
	changing = regexp.MustCompile(`Invalid power_state for instance \S+: (BUILD|REBUILD|REBOOT|HARD_REBOOT|RESIZE)\b`)
	codes    = regexp.MustCompile(`but got (\d{3}) instead|"code": ?(\d{3})\b`)
)

// codeIn finds the status code in an error of a client library. The first major version of gophercloud has sentences
// without a number for some codes.
func codeIn(words string) int {
	if found := codes.FindStringSubmatch(words); found != nil {
		code, _ := strconv.Atoi(found[1] + found[2]) // one of the two is empty
		return code
	}
	for sentence, code := range map[string]int{
		"Internal Server Error": 500,
		"Bad Gateway":           502,
		"The service is currently unable to handle the request due to a temporary overloading or maintenance": 503,
		"Gateway Timeout": 504,
		"The server timed out waiting for the request": 408,
	} {
		if strings.Contains(words, sentence) {
			return code
		}
	}
	return 0
}
