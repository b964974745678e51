package usage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// JobTable returns a function that writes jobs for people: as a table, or as a timeline for each job. A wide table
// has a line for each instance of a job.
func JobTable(jobs []Job, timelines bool) func(w io.Writer, wide bool, width int) error {
	return func(w io.Writer, wide bool, width int) error {
		if timelines && !wide {
			return writeTimelines(w, jobs, width)
		}
		return writeJobs(w, jobs, wide, width)
	}
}

func writeJobs(w io.Writer, jobs []Job, wide bool, width int) error {
	if len(jobs) == 0 {
		_, err := fmt.Fprintln(w, "no jobs")
		return err
	}
	rows := [][]string{{"JOB", "USER", "PARTITION", "STATE", "SUBMITTED", "WAITED", "RAN", "NODES"}}
	if wide {
		rows[0] = append(rows[0], "INSTANCE", "IMAGE", "FLAVOR", "HOST", "BOOTED IN", "INSTANCE ENDED")
	} else {
		rows[0] = append(rows[0], "WHY")
	}
	for _, j := range jobs {
		row := []string{
			strconv.FormatInt(j.ID, 10), j.User, j.Partition, j.State, clock(j.Submitted), between(j.Submitted, j.Started),
			between(j.Started, j.Ended),
		}
		if !wide {
			rows = append(rows, append(row, j.Nodes.String(), text.OneLine(j.Why)))
			continue
		}
		if len(j.Instances) == 0 {
			rows = append(rows, append(row, j.Nodes.String(), "", "", "", "", "", ""))
		}
		for _, l := range j.Instances {
			rows = append(rows, append(slices.Clone(row), l.Node, l.Instance, cmp.Or(l.Image, l.ImageID),
				cmp.Or(l.Flavor, l.FlavorID), text.OneLine(l.Host), between(l.Made, l.Registered), clock(l.Removed)))
		}
	}
	return text.Table(w, rows, width)
}

// writeTimelines writes the timeline of each job.
func writeTimelines(w io.Writer, jobs []Job, width int) error {
	if len(jobs) == 0 {
		_, err := fmt.Fprintln(w, "no such job")
		return err
	}
	for i, j := range jobs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		title := fmt.Sprintf("job %d: %s", j.ID, j.State)
		if j.User != "" {
			title += ", of " + j.User
		}
		if !j.Nodes.Empty() {
			title += ", on " + j.Nodes.String()
		}
		if j.Why != "" {
			title += "; " + text.OneLine(j.Why)
		}
		if _, err := fmt.Fprintln(w, title); err != nil {
			return err
		}
		rows := [][]string{{"TIME", "AFTER", "NODE", "WHAT", "INSTANCE", "DETAILS"}}
		for _, s := range j.Timeline {
			rows = append(rows, []string{
				clock(s.Time), "+" + text.Span(s.Time.Sub(j.Timeline[0].Time)), s.Node, string(s.What), s.Instance,
				text.OneLine(s.Text),
			})
		}
		if err := text.Table(w, rows, width); err != nil {
			return err
		}
	}
	return nil
}

// clock returns a time for people, in the zone of this host; empty for none.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// between returns a duration for people; empty if one of the times is unknown.
func between(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return text.Span(to.Sub(from))
}

// row is the hours of a group or a user in JSON.
type row struct {
	Name      string  `json:"name"`
	Instances int     `json:"instances,omitempty"` // of a group
	Total     float64 `json:"total_hours"`
	Used      float64 `json:"used_hours"`
	Idle      float64 `json:"idle_hours"`
	Booting   float64 `json:"booting_hours"`
	Wasted    float64 `json:"wasted_hours"`
	// Of a group, see Saved.
	AtOnce int      `json:"jobs_at_once,omitempty"`
	Saved  *float64 `json:"saved_hours,omitempty"` // nil: unknown
}

// groups returns the rows of the groups, the largest first.
func (r Report) groups() []row {
	list := rows(r.Groups)
	for i, x := range list {
		s := r.Saved[x.Name]
		list[i].Instances, list[i].AtOnce = r.Instances[x.Name], s.Jobs
		if s.Wait > 0 {
			saved := hours(s.Wait)
			list[i].Saved = &saved
		}
	}
	return list
}

// hours returns a duration in hours, with three decimals.
func hours(d time.Duration) float64 { return math.Round(d.Hours()*1000) / 1000 }

// rows returns hours by name, the largest first.
func rows(all map[string]Hours) []row {
	list := []row{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h := all[name]
		list = append(list, row{
			Name: name, Total: hours(h.Total()), Used: hours(h.Used), Idle: hours(h.Idle), Booting: hours(h.Booting),
			Wasted: hours(h.Wasted),
		})
	}
	slices.SortStableFunc(list, func(a, b row) int { return cmp.Compare(b.Total, a.Total) })
	return list
}

// MarshalJSON returns the report with lists of groups and of users, the largest first, in hours. The user Nobody has an
// empty name.
func (r Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Since  time.Time `json:"since"`
		Until  time.Time `json:"until"`
		Groups []row     `json:"groups"`
		Users  []row     `json:"users"`
	}{r.Since, r.Until, r.groups(), rows(r.Users)})
}

// Rows returns the hours of MarshalJSON's groups and users as a header and records; the column of says which they are
// of.
func (r Report) Rows() [][]string {
	records := [][]string{{
		"of", "name", "instances", "total_hours", "used_hours", "idle_hours", "booting_hours", "wasted_hours",
		"jobs_at_once", "saved_hours",
	}}
	add := func(of string, list []row) {
		for _, x := range list {
			record := []string{of, x.Name, ""}
			if of == "group" {
				record[2] = strconv.Itoa(x.Instances)
			}
			for _, h := range []float64{x.Total, x.Used, x.Idle, x.Booting, x.Wasted} {
				record = append(record, strconv.FormatFloat(h, 'f', -1, 64))
			}
			atOnce, saved := "", ""
			if of == "group" {
				atOnce = strconv.Itoa(x.AtOnce)
			}
			if x.Saved != nil {
				saved = strconv.FormatFloat(*x.Saved, 'f', -1, 64)
			}
			record = append(record, atOnce, saved)
			records = append(records, record)
		}
	}
	add("group", r.groups())
	add("user", rows(r.Users))
	return records
}

// Write writes the report as two tables.
func (r Report) Write(w io.Writer, _ bool, width int) error {
	if _, err := fmt.Fprintf(w, "instance hours from %s to %s\n", clock(r.Since), clock(r.Until)); err != nil {
		return err
	}
	if len(r.Groups) == 0 {
		_, err := fmt.Fprintln(w, "no instances")
		return err
	}
	table := func(what string, list []row) [][]string {
		lines := [][]string{{
			what, "INSTANCES", "TOTAL", "USED", "IDLE", "BOOTING", "WASTED", "JOBS AT ONCE", "WAIT SAVED",
		}}
		for _, x := range list {
			line := []string{x.Name, ""}
			if x.Instances > 0 {
				line[1] = strconv.Itoa(x.Instances)
			}
			for _, h := range []float64{x.Total, x.Used, x.Idle, x.Booting, x.Wasted} {
				line = append(line, strconv.FormatFloat(h, 'f', 2, 64))
			}
			atOnce, saved := "", ""
			if x.AtOnce > 0 {
				atOnce = strconv.Itoa(x.AtOnce)
			}
			if x.Saved != nil {
				saved = strconv.FormatFloat(*x.Saved, 'f', 2, 64)
			}
			line = append(line, atOnce, saved)
			lines = append(lines, line)
		}
		return lines
	}
	if err := text.Table(w, table("GROUP", r.groups()), width); err != nil {
		return err
	}
	users := rows(r.Users)
	for i, u := range users {
		if u.Name == Nobody {
			users[i].Name = "(no job)"
		}
	}
	fmt.Fprintln(w)
	return text.Table(w, table("USER", users), width)
}
