package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Settings has slurmctld's settings.
type Settings struct {
	// Values has each setting of slurm.conf(5) with its value as Slurm prints it, for example "60 sec" or "(null)",
	// and SLURM_VERSION.
	Values map[string]string
	// Clock is slurmctld's time in whole seconds, in its own time zone, which is unknown: the value uses UTC.
	Clock time.Time
}

// Settings asks slurmctld for its settings. No release prints all of them as JSON; the form of the lines, "Name =
// value", is the same in all releases (scontrol(1), show config). The error is ErrUnreachable unless ctx ended.
func (c *Client) Settings(ctx context.Context) (Settings, error) {
	out, err := c.call(ctx, "scontrol", "show", "config")
	if err != nil {
		return Settings{}, unreachable(ctx, err)
	}
	s := parseSettings(out)
	if len(s.Values) == 0 {
		return s, unreachable(ctx, errors.New("scontrol show config: the answer has no settings"))
	}
	return s, nil
}

func parseSettings(out []byte) Settings {
	s := Settings{Values: map[string]string{}}
	for line := range strings.Lines(string(out)) {
		if date, ok := strings.CutPrefix(line, "Configuration data as of "); ok {
			s.Clock, _ = time.Parse("2006-01-02T15:04:05", strings.TrimSpace(date)) // zero: not known
		}
		name, value, ok := strings.Cut(line, "=")
		// the settings of cgroup.conf follow those of slurm.conf
		if _, twice := s.Values[strings.TrimSpace(name)]; ok && !twice {
			s.Values[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return s
}

// Exceptions returns the nodes that slurmctld does not suspend (slurm.conf(5), SuspendExcNodes), and whether its
// release can change them while it runs: since 23.02.
func (s Settings) Exceptions() (nodes string, changes bool) {
	nodes = s.Values["SuspendExcNodes"]
	if nodes == "(null)" {
		nodes = ""
	}
	var year, month int
	_, err := fmt.Sscanf(s.Values["SLURM_VERSION"], "%d.%d", &year, &month)
	return nodes, err == nil && (year > 23 || year == 23 && month >= 2)
}
