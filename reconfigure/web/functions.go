package web

import (
	"cmp"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

// functions are what the templates call.
var functions = template.FuncMap{
	"clock":    func(t time.Time) string { return t.Local().Format(time.DateTime) },
	"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"ago":      text.Ago,
	"span":     text.Span,
	"between":  func(from, to time.Time) string { return text.Span(to.Sub(from)) },
	"line":     func(s any) string { return text.OneLine(fmt.Sprint(s)) },
	"clip":     func(n int, s string) string { return text.Clip(text.OneLine(s), n) },
	"nodes":    func(n nodeset.NodeSet) string { return text.Clip(n.String(), 60) },
	"parts":    parts,
	"typical":  typical,
	"hours":    func(d time.Duration) string { return fmt.Sprintf("%.1f", d.Hours()) },
	"count":    text.Count,
	"words":    func(s string) string { return cmp.Or(legends[s], s) },
	"sentence": sentence,
	"only":     only,
	"image":    func(l reconfigure.Life) string { return text.OneLine(cmp.Or(l.Image, l.ImageID)) },
	"flavor":   func(l reconfigure.Life) string { return text.OneLine(cmp.Or(l.Flavor, l.FlavorID)) },
	"class":    func(e reconfigure.Event) reconfigure.Class { return reconfigure.ClassIn(e.Message) },
	"host":     func(name string) string { return selection{Host: name, Window: "30d"}.URL() },
	"imageURL": func(name string) string { return selection{Image: name, Window: "30d"}.URL() },
	"classURL": func(c reconfigure.Class) string { return selection{Class: c, Window: "30d"}.URL() },
	"groupURL": func(name string) string { return selection{Group: name}.URL() },
	"nobody":   func(name string) string { return cmp.Or(name, "(no job)") },
	"ready":    func(l reconfigure.Life) bool { return !l.Planned.IsZero() && !l.Registered.IsZero() },
	"median":   func(t usage.Typical) bool { return t.Count > 0 },
}

// legends are the words for the classes of bars.
var legends = map[string]string{
	"queued": "waits in the queue", "cloud": "the cloud makes it", "boot": "boots", "configure": "Ansible",
	"register": "slurmd registers", "busy": "runs jobs", "idle": "idle", "up": "up", "failed": "a failure",
	"usual": "95 of 100 are ready by then", "off": "powered down", "powering": "powers up or down",
	"drained": "drained", "down": "down", "other": "other",
}

// piece is a part of a text: words, or a command to type.
type piece struct {
	Text string
	Code bool
}

// parts splits a text at its backquotes.
func parts(s string) (all []piece) {
	for i, part := range strings.Split(s, "`") {
		if part != "" {
			all = append(all, piece{part, i%2 == 1})
		}
	}
	return all
}

// only returns the name of a set with one node; empty otherwise.
func only(n nodeset.NodeSet) string {
	if n.Len() == 1 {
		return n.String()
	}
	return ""
}
