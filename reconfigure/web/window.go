package web

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// lengths are the lengths of the timeline's window that the page offers.
var lengths = []string{"1h", "6h", "1d", "7d", "30d", "90d"}

const (
	shortest = time.Hour
	longest  = 90 * 24 * time.Hour
	standard = "1d"
)

// selection is what a timeline shows, as the query of its URL has it.
type selection struct {
	Window  string    // one of lengths, or another duration; empty: it fits the job or the request
	Until   time.Time // zero: now
	Job     int64
	Request reconfigure.RequestID
	Group   string
	Host    string
	Image   string
	Class   reconfigure.Class
	Node    string // a hostlist
	Page    int    // from 1
	Table   bool   // a plain table instead of bars

	nodes nodeset.NodeSet
}

// parseSelection reads a query. The error is for the reader of the page.
func parseSelection(q url.Values) (s selection, err error) {
	number := func(name string) (n int64) {
		value := strings.TrimSpace(q.Get(name))
		if value == "" || err != nil {
			return 0
		}
		if n, err = strconv.ParseInt(value, 10, 64); err != nil || n < 1 {
			err = fmt.Errorf("%s needs a number, but got %q", name, value)
		}
		return n
	}
	s.Job, s.Request, s.Page = number("job"), reconfigure.RequestID(number("request")), int(number("page"))
	if err != nil {
		return s, err
	}
	s.Page = max(s.Page, 1)
	s.Group, s.Host, s.Image = q.Get("group"), strings.TrimSpace(q.Get("host")), strings.TrimSpace(q.Get("image"))
	s.Class, s.Table = reconfigure.Class(q.Get("class")), q.Get("as") == "table"
	if s.Class != "" && !slices.Contains(reconfigure.Classes(), s.Class) {
		return s, fmt.Errorf("there is no class %q", s.Class)
	}
	if s.Node = strings.TrimSpace(q.Get("node")); s.Node != "" {
		if s.nodes, err = nodeset.Parse(s.Node); err != nil {
			return s, err
		}
	}
	if s.Window = q.Get("window"); s.Window != "" {
		d, err := text.ParseDuration(s.Window)
		if err != nil || d < shortest || d > longest {
			return s, fmt.Errorf("the window %q is not between 1h and 90d", s.Window)
		}
	}
	if until := q.Get("until"); until != "" {
		if s.Until, err = time.Parse(time.RFC3339, until); err != nil {
			return s, fmt.Errorf("until needs a time as 2026-01-31T12:00:00Z, but got %q", until)
		}
	}
	return s, nil
}

// URL returns the address of the timeline with a selection, below the start page.
func (s selection) URL() string {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" && value != "0" {
			q.Set(name, value)
		}
	}
	set("window", s.Window)
	if !s.Until.IsZero() {
		set("until", s.Until.UTC().Format(time.RFC3339))
	}
	set("job", strconv.FormatInt(s.Job, 10))
	set("request", s.Request.String())
	set("group", s.Group)
	set("host", s.Host)
	set("image", s.Image)
	set("class", string(s.Class))
	set("node", s.Node)
	if s.Page > 1 {
		set("page", strconv.Itoa(s.Page))
	}
	if s.Table {
		set("as", "table")
	}
	if len(q) == 0 {
		return "timeline"
	}
	return "timeline?" + q.Encode()
}

// window is a period with a number of columns, in which times have places.
type window struct{ Since, Until time.Time }

// columns is the width of a timeline. A screen has about as many pixels; more would only make the page larger.
const columns = 1000

// newWindow returns the window of a selection. Without a declared one it fits the period from begin to end, with some
// space around it; zero times are unknown.
func newWindow(s selection, begin, end, now time.Time) window {
	length, err := text.ParseDuration(s.Window)
	switch {
	case err == nil:
	case begin.IsZero():
		length, _ = text.ParseDuration(standard)
	default:
		if end.IsZero() || end.After(now) {
			end = now
		}
		space := max(end.Sub(begin)/20, time.Minute)
		length = min(max(end.Sub(begin)+2*space, shortest), longest)
		if s.Until.IsZero() {
			s.Until = end.Add(space)
		}
	}
	if s.Until.IsZero() {
		s.Until = now
	}
	return window{s.Until.Add(-length), s.Until}
}

func (w window) length() time.Duration { return w.Until.Sub(w.Since) }

// column returns the place of a time, between 0 and columns.
func (w window) column(t time.Time) int {
	c := int(float64(t.Sub(w.Since)) / float64(w.length()) * columns)
	return min(max(c, 0), columns)
}

// tick is a time on the axis.
type tick struct {
	Column int
	X      string // its place in percent
	Label  string
}

// ticks returns the times to label, at most ten.
func (w window) ticks(zone *time.Location) (all []tick) {
	steps := []time.Duration{
		10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
		48 * time.Hour, 7 * 24 * time.Hour, 14 * 24 * time.Hour,
	}
	step := steps[len(steps)-1]
	for _, s := range steps {
		if w.length()/s <= 8 {
			step = s
			break
		}
	}
	layout := "15:04"
	if step >= 12*time.Hour {
		layout = "02 Jan"
	}
	since := w.Since.In(zone)
	at := time.Date(since.Year(), since.Month(), since.Day(), 0, 0, 0, 0, zone)
	for ; at.Before(w.Until); at = next(at, step) {
		place := float64(at.Sub(w.Since)) / float64(w.length()) * 100
		if at.After(w.Since) && place > 2 && place < 97 {
			label := at.Format(layout)
			if layout == "15:04" && at.Hour() == 0 && at.Minute() == 0 {
				label = at.Format("02 Jan")
			}
			all = append(all, tick{w.column(at), strconv.FormatFloat(place, 'f', 2, 64) + "%", label})
		}
	}
	return all
}

// next returns the next tick. A day may have 23 or 25 hours.
func next(at time.Time, step time.Duration) time.Time {
	if days := int(step / (24 * time.Hour)); days > 0 {
		return at.AddDate(0, 0, days)
	}
	return at.Add(step)
}
