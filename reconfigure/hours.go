package reconfigure

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Hours are hours of the week, such as Mon-Fri 07:00-18:00. None are the whole week.
type Hours []DayHours

// DayHours are the same hours of some days.
type DayHours struct {
	Days       [7]bool // by time.Weekday
	Begin, End int     // minutes of the day; the end does not belong to them
}

// minutesOfDay is the end of a span that ends at midnight.
const minutesOfDay = 24 * 60

var hoursText = regexp.MustCompile(`^([A-Za-z]{3})(?:-([A-Za-z]{3}))? +([0-9]{2}):([0-9]{2})-([0-9]{2}):([0-9]{2})$`)

// ParseHours reads hours: one or several spans, separated by commas, each with a day or days and a time of the day. The
// error has the problem and the remedy.
func ParseHours(text string) (h Hours, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, err := parseSpan(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		h = append(h, span)
	}
	return h, nil
}

func parseSpan(text string) (s DayHours, err error) {
	form := fmt.Errorf("%q is not in the form Mon-Fri 07:00-18:00; separate several of these by commas", text)
	words := hoursText.FindStringSubmatch(text)
	if words == nil {
		return s, form
	}
	first, known := weekday(words[1])
	last := first
	if words[2] != "" && known {
		last, known = weekday(words[2])
	}
	begin, beginOK := minutes(words[3], words[4])
	end, endOK := minutes(words[5], words[6])
	switch {
	case !known || !beginOK || !endOK:
		return s, form
	case begin >= end:
		return s, errors.New("ends before it begins; write hours beyond midnight as two: Mon 22:00-24:00, Tue 00:00-06:00")
	}
	for day := first; ; day = (day + 1) % 7 {
		s.Days[day] = true
		if day == last {
			break
		}
	}
	s.Begin, s.End = begin, end
	return s, nil
}

func weekday(word string) (time.Weekday, bool) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.EqualFold(word, day.String()[:3]) {
			return day, true
		}
	}
	return 0, false
}

// minutes reads two digits each of hours and minutes, up to 24:00.
func minutes(hour, minute string) (int, bool) {
	h, m := int(hour[0]-'0')*10+int(hour[1]-'0'), int(minute[0]-'0')*10+int(minute[1]-'0')
	return h*60 + m, m < 60 && h*60+m <= minutesOfDay
}

// Contains reports whether a time is in the hours, in the time's zone.
func (h Hours) Contains(t time.Time) bool {
	now := t.Hour()*60 + t.Minute()
	for _, s := range h {
		if s.Days[t.Weekday()] && s.Begin <= now && now < s.End {
			return true
		}
	}
	return len(h) == 0
}
