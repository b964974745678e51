package usage

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Host has the instances that one host of the cloud had, and how many of them failed, beside those of the other hosts.
type Host struct {
	Name string `json:"host"`
	// Instances that became ready or failed. A rebuilt instance counts again. Failed are those that did not become
	// ready, and Classes divides them by class.
	Instances int                       `json:"instances"`
	Failed    int                       `json:"failed"`
	Classes   map[reconfigure.Class]int `json:"classes,omitempty"`
	Last      time.Time                 `json:"last_failure,omitzero"` // the end of the newest instance that failed
	// OtherInstances and OtherFailed are the same numbers of all other hosts together.
	OtherInstances int `json:"other_instances"`
	OtherFailed    int `json:"other_failed"`
	// Boot and Configure are medians in seconds: until SSH answers, and until the playbooks have ended. Zero: unknown.
	Boot      float64 `json:"boot_seconds,omitempty"`
	Configure float64 `json:"configure_seconds,omitempty"`
	// Chance is the probability that at least so many instances fail on one of the hosts if all hosts are alike.
	Chance float64 `json:"chance"`
	// Suspected reports whether Chance is below SuspectBelow.
	Suspected bool `json:"suspected"`
}

// SuspectBelow is the chance below which a host is suspected.
const SuspectBelow = 0.01

// Hosts compares the hosts of lives that belong to a node group, or to any if it is empty. A host with more failures is
// before one with fewer. Lives without a known host, and those that are not ready yet, do not count.
func Hosts(lives []reconfigure.Life, group string) []Host {
	type times struct{ boot, configure []time.Duration }
	found, spans := map[string]*Host{}, map[string]*times{}
	all, failed := 0, 0
	for _, l := range lives {
		ready := !l.Registered.IsZero()
		if l.Host == "" || group != "" && l.Group != group || !ready && l.Failed == "" {
			continue
		}
		h := found[l.Host]
		if h == nil {
			h = &Host{Name: l.Host, Classes: map[reconfigure.Class]int{}}
			found[l.Host], spans[l.Host] = h, &times{}
		}
		all++
		h.Instances++
		if !ready {
			failed++
			h.Failed++
			h.Classes[reconfigure.ClassIn(l.Failed)]++
			if end := cmp.Or(l.Removed, l.Made); end.After(h.Last) {
				h.Last = end
			}
		}
		s := spans[l.Host]
		s.boot, s.configure = span(s.boot, l.Made, l.Booted), span(s.configure, l.Booted, l.Configured)
	}
	hosts := []Host{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		h := found[name]
		h.OtherInstances, h.OtherFailed = all-h.Instances, failed-h.Failed
		h.Boot, h.Configure = median(spans[name].boot), median(spans[name].configure)
		h.Chance = min(1, float64(len(found))*atLeast(h.Failed, h.Instances, failed, all))
		h.Suspected = h.Chance < SuspectBelow
		hosts = append(hosts, *h)
	}
	slices.SortStableFunc(hosts, func(a, b Host) int {
		return cmp.Or(cmp.Compare(a.Chance, b.Chance), b.Failed-a.Failed)
	})
	return hosts
}

// span adds the time between two moments if both are known.
func span(spans []time.Duration, from, to time.Time) []time.Duration {
	if from.IsZero() || to.IsZero() {
		return spans
	}
	return append(spans, to.Sub(from))
}

// median returns the median in seconds, with one decimal; 0 of none.
func median(spans []time.Duration) float64 {
	return math.Round(TypicalOf(spans).Median.Seconds()*10) / 10
}

// atLeast returns the probability that a random choice of n out of all has at least k of the failed ones: Fisher's
// exact test with one side.
func atLeast(k, n, failed, all int) float64 {
	ways := func(n, k int) float64 { // the logarithm of n over k
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(k + 1))
		c, _ := math.Lgamma(float64(n - k + 1))
		return a - b - c
	}
	sum := 0.0
	for i := max(k, n-(all-failed)); i <= min(n, failed); i++ {
		sum += math.Exp(ways(failed, i) + ways(all-failed, n-i) - ways(all, n))
	}
	return min(1, sum)
}

// HostTable returns a function that writes hosts for people. A wide table has the chance of each host.
func HostTable(hosts []Host) func(w io.Writer, wide bool, width int) error {
	return func(w io.Writer, wide bool, width int) error {
		if len(hosts) == 0 {
			_, err := fmt.Fprintln(w, "no instance with a known host became ready or failed")
			return err
		}
		rows := [][]string{{"HOST", "FAILED", "OTHER HOSTS", "BOOT", "CONFIGURE", "LAST FAILURE", "CLASSES", "VERDICT"}}
		if wide {
			rows[0] = append(rows[0], "CHANCE")
		}
		for _, h := range hosts {
			row := []string{text.OneLine(h.Name), outOf(h.Failed, h.Instances), outOf(h.OtherFailed, h.OtherInstances),
				seconds(h.Boot), seconds(h.Configure), clock(h.Last), h.classes(), ""}
			if h.Suspected {
				row[7] = "suspected"
			}
			if wide {
				row = append(row, strconv.FormatFloat(h.Chance, 'g', 2, 64))
			}
			rows = append(rows, row)
		}
		return text.Table(w, rows, width)
	}
}

func outOf(n, all int) string { return fmt.Sprintf("%d of %d", n, all) }

func seconds(s float64) string {
	if s == 0 {
		return ""
	}
	return strconv.FormatFloat(s, 'f', 1, 64) + "s"
}

// classes returns the failures by class, the most frequent first.
func (h Host) classes() string {
	names := slices.SortedFunc(maps.Keys(h.Classes), func(a, b reconfigure.Class) int {
		return cmp.Or(h.Classes[b]-h.Classes[a], cmp.Compare(a, b))
	})
	var parts []string
	for _, c := range names {
		parts = append(parts, fmt.Sprintf("%d %s", h.Classes[c], c))
	}
	return strings.Join(parts, ", ")
}
