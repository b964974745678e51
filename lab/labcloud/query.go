package labcloud

import (
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// paging is the part of a list's query that picks a page.
type paging struct {
	// limit is the page's greatest size, zero if there is none.
	limit int
	// marker is the id of the last item of the page before, empty for the
	// first page.
	marker string
}

// takePaging moves limit and marker out of a query. The page is never larger
// than most, if most is not zero.
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

// page is the part of items after the marker that match, up to the limit, and
// the marker for the next page, which is empty if this was the last. An
// unknown marker is refused.
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

// nextURL is the address of the page after a marker, with the query as it was.
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

// matchTags answers the filters on tags, and reports whether name is one of them
// at all.
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
