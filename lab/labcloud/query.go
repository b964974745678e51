package labcloud

import (
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// paging is the part of a list's query that selects a page.
type paging struct {
	// limit is the maximum size of the page; zero means no limit.
	limit int
	// marker is the id of the last item on the previous page; empty for the first page.
	marker string
}

// takePaging removes limit and marker from a query and returns them. If most is not zero, it is the maximum size of a
// page.
func takePaging(q url.Values, most int) (paging, error) {
	p := paging{limit: most, marker: q.Get("marker")}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return p, badRequest("Invalid input for query parameters limit. Value: %s. '%[1]s' does not match '^[0-9]*$'",
				text)
		}
		if n > 0 && (most == 0 || n < most) {
			p.limit = n
		}
	}
	q.Del("limit")
	q.Del("marker")
	return p, nil
}

// page returns the matching items after the marker, up to the limit, and the marker for the next page, which is empty
// after the last page. It rejects an unknown marker.
func page[T any](items iter.Seq2[string, T], p paging, match func(T) bool) (found []T, next string, err error) {
	begun := p.marker == ""
	last := ""
	for id, item := range items {
		if !begun {
			begun = id == p.marker
			continue
		}
		if !match(item) {
			continue
		}
		if p.limit > 0 && len(found) == p.limit {
			return found, last, nil
		}
		found, last = append(found, item), id
	}
	if !begun {
		return nil, "", badRequest("marker [%s] not found", p.marker)
	}
	return found, "", nil
}

// nextURL is the address of the page after a marker, with an otherwise unchanged query.
func (r *request) nextURL(marker string) string {
	q := r.URL.Query()
	q.Set("marker", marker)
	return r.base + r.URL.Path + "?" + q.Encode()
}

// The filters on tags that Nova and Neutron share.
const (
	tagsAll    = "tags"
	tagsAny    = "tags-any"
	notTagsAll = "not-tags"
	notTagsAny = "not-tags-any"
)

// matchTags evaluates a filter on tags, and reports whether name is such a filter.
func matchTags(name, value string, tags []string) (matched, known bool) {
	all := func() bool {
		return !slices.ContainsFunc(strings.Split(value, ","),
			func(tag string) bool { return !slices.Contains(tags, tag) })
	}
	some := func() bool {
		return slices.ContainsFunc(strings.Split(value, ","),
			func(tag string) bool { return slices.Contains(tags, tag) })
	}
	switch name {
	case tagsAll:
		return all(), true
	case tagsAny:
		return some(), true
	case notTagsAll:
		return !all(), true
	case notTagsAny:
		return !some(), true
	}
	return false, false
}
