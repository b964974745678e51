package usage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// livesOn returns lives of a host, the first ones of them failed.
func livesOn(host string, failed, all int) (lives []reconfigure.Life) {
	made := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for i := range all {
		l := reconfigure.Life{Node: "n1", Instance: fmt.Sprint(host, i), Group: "standard", Host: host,
			Made: made, Booted: made.Add(time.Duration(10+i) * time.Second)}
		if i < failed {
			l.Failed, l.Removed, l.Booted = "no-ssh: no SSH", made.Add(time.Hour), time.Time{}
		} else {
			l.Configured = l.Booted.Add(2 * time.Second)
			l.Registered = l.Configured.Add(time.Second)
		}
		lives = append(lives, l)
	}
	return lives
}

func TestABadHostIsSuspected(t *testing.T) {
	lives := append(livesOn("good1", 1, 95), livesOn("good2", 1, 95)...)
	lives = append(lives, livesOn("bad", 5, 6)...)
	lives[0].Failed = "it was sold"
	lives = append(lives,
		reconfigure.Life{Node: "n2", Group: "standard", Failed: "no-ssh: no SSH"}, // its host is unknown
		reconfigure.Life{Node: "n3", Group: "standard", Host: "bad"},              // it still boots
		reconfigure.Life{Node: "g1", Group: "gpu", Host: "bad", Failed: "playbook: a task"},
	)
	hosts := Hosts(lives, "standard")
	if len(hosts) != 3 {
		t.Fatalf("hosts are %+v", hosts)
	}
	bad := hosts[0]
	chance := bad.Chance
	bad.Chance = 0
	want := Host{Name: "bad", Instances: 6, Failed: 5, Classes: map[reconfigure.Class]int{reconfigure.ClassSSH: 5},
		Last: lives[0].Made.Add(time.Hour), OtherInstances: 190, OtherFailed: 2, Boot: 15, Configure: 2, Suspected: true}
	if diff := cmp.Diff(want, bad); diff != "" {
		t.Errorf("the bad host (-want +got):\n%s", diff)
	}
	// By hand: of 7 failures among 196, at least 5 are among 6 chosen ones; times three hosts.
	by := 3 * (choose(7, 5)*choose(189, 1) + choose(7, 6)) / choose(196, 6)
	if math.Abs(chance/by-1) > 1e-6 {
		t.Errorf("the chance is %g, not %g", chance, by)
	}
	for _, h := range hosts[1:] {
		if h.Suspected {
			t.Errorf("%+v is suspected", h)
		}
	}
	var b strings.Builder
	if err := HostTable(hosts)(&b, true, 0); err != nil {
		t.Fatal(err)
	}
	line := strings.Fields(strings.Split(b.String(), "\n")[1])
	if got := strings.Join(line, " "); !strings.HasPrefix(got, "bad 5 of 6 2 of 190 15.0s 2.0s ") ||
		!strings.Contains(got, " 5 no-ssh suspected ") {
		t.Errorf("the table says %q", got)
	}
}

func choose(n, k int) float64 {
	ways := 1.0
	for i := range k {
		ways = ways * float64(n-i) / float64(i+1)
	}
	return ways
}

// A bad image fails on each host, so no host is suspected. Nor is one for its first failure.
func TestABadImageIsNoBadHost(t *testing.T) {
	for name, lives := range map[string][]reconfigure.Life{
		"a bad image":     append(append(livesOn("a", 9, 10), livesOn("b", 8, 10)...), livesOn("c", 1, 1)...),
		"a first failure": append(livesOn("a", 1, 1), livesOn("b", 0, 40)...),
		"a single host":   livesOn("a", 9, 10),
	} {
		for _, h := range Hosts(lives, "") {
			if h.Suspected {
				t.Errorf("%s: %+v is suspected", name, h)
			}
		}
	}
}

// Where all hosts are alike, one of them is suspected in at most one of a hundred clouds.
func TestAlikeHostsAreRarelySuspected(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	clouds := 0
	const tries = 1000
	for range tries {
		var lives []reconfigure.Life
		for host := range 20 {
			failed := 0
			for range 10 {
				if random.IntN(10) == 0 {
					failed++
				}
			}
			lives = append(lives, livesOn(fmt.Sprint("host", host), failed, 10)...)
		}
		if Hosts(lives, "")[0].Suspected {
			clouds++
		}
	}
	if clouds > tries/100 {
		t.Errorf("a host is suspected in %d of %d clouds", clouds, tries)
	}
}
