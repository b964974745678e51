package cloudtest

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Questions returns the kinds of filtered lists that reconfigure requests from OpenStack, in the form of [Question].
// The checks request each of them, so that labcloud and the real OpenStack must answer it in the same way. A test of
// the adapter compares them with the adapter's requests.
func Questions() []string {
	return []string{
		"flavors is_public",
		"images name",
		"networks name",
		"ports description",
		"ports device_id",
		"servers name=^name$",
		"servers name=^name?$",
	}
}

var (
	version  = regexp.MustCompile(`^.*/v\d[^/]*/`)
	class    = regexp.MustCompile(`\[[A-Za-z0-9_-]+\]`)
	optional = regexp.MustCompile(`(name\?)+`)
	literal  = regexp.MustCompile(`[A-Za-z0-9_-]+`)
)

// Question returns the kind of a call for a list: the resource and the filters that a database may evaluate. Of a
// regular expression in a filter, only the operators are kept. The kind of a list without a filter is empty.
func Question(u *url.URL) string {
	query := u.Query()
	query.Del("limit")
	query.Del("marker")
	if len(query) == 0 {
		return ""
	}
	what := strings.TrimSuffix(version.ReplaceAllString(u.Path, ""), "/detail")
	var filters []string
	for filter := range query {
		if what == "servers" && filter == "name" {
			filter += "=" + pattern(query.Get(filter))
		}
		filters = append(filters, filter)
	}
	slices.Sort(filters)
	return what + " " + strings.Join(filters, " ")
}

// pattern reduces a regular expression to its operators: text and classes of characters become "name". Several "?"
// count as one.
func pattern(s string) string {
	s = literal.ReplaceAllString(class.ReplaceAllString(s, "name"), "name")
	return strings.ReplaceAll(optional.ReplaceAllString(s, "name?"), "name?name", "name?")
}
