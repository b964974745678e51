package client

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/check"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// TestTheKeysOfTheControlHostsUserAreFound names the file in the ways that the declaration allows.
func TestTheKeysOfTheControlHostsUserAreFound(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	keys := filepath.Join(home, ".ssh", "authorized_keys")
	if err := os.Mkdir(filepath.Dir(keys), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keys, []byte("a line"), 0o600); err != nil {
		t.Fatal(err)
	}
	usual := map[string]check.Role{home: check.Home, filepath.Dir(keys): check.KeyFile, keys: check.KeyFile}
	for declared, want := range map[string]map[string]check.Role{
		"~/.ssh/authorized_keys":        usual,
		keys:                            usual,
		home + "/keys/eiffel":           {home + "/keys": check.KeyFile, home + "/keys/eiffel": check.KeyFile},
		"~no-such-user/authorized_keys": {},
	} {
		s := site.Site{
			Dir:     t.TempDir(),
			Cluster: reconfigure.Cluster{Settings: reconfigure.Settings{AuthorizedKeys: declared}},
		}
		s.Provider.Credentials = func(string) string { return "" }
		facts := localFacts(s)
		found := map[string]check.Role{}
		for _, f := range facts.Files {
			if f.Role == check.KeyFile || f.Role == check.Home {
				found[f.Path] = f.Role
			}
		}
		if diff := cmp.Diff(want, found); diff != "" || len(facts.Unreachable) > 0 {
			t.Errorf("%s: %v (-want +got):\n%s", declared, facts.Unreachable, diff)
		}
		if has := facts.AuthorizedKeys != nil && facts.AuthorizedKeys.Lines[0] == "a line"; has != (want[keys] != "") {
			t.Errorf("%s: the lines are %+v", declared, facts.AuthorizedKeys)
		}
	}
}

func TestAClockIsComparedWithTheTimeOfTheAnswer(t *testing.T) {
	from := time.Date(2026, 3, 1, 12, 0, 0, 500e6, time.UTC)
	took := asked{from, from.Add(8 * time.Second)} // a slow answer
	second := func(s int) time.Time { return time.Date(2026, 3, 1, 12, 0, s, 0, time.UTC) }
	for clock, want := range map[time.Time]time.Duration{
		second(0):  0,
		second(8):  0,
		second(9):  500 * time.Millisecond,
		second(68): 59*time.Second + 500*time.Millisecond,
		second(-9): -9*time.Second - 500*time.Millisecond,
	} {
		if got := took.ahead(clock); got != want {
			t.Errorf("%s: %s ahead, want %s", clock.Format(time.TimeOnly), got, want)
		}
		for _, zone := range []time.Duration{0, time.Hour, -8 * time.Hour, 5*time.Hour + 45*time.Minute} {
			if got := took.slurmAhead(clock.Add(zone)); got != want {
				t.Errorf("%s in a zone of %s: %s ahead, want %s", clock.Format(time.TimeOnly), zone, got, want)
			}
		}
	}
}
