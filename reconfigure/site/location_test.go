package site

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestWhatIsRememberedIsRecalled(t *testing.T) {
	for name, settings := range map[string]reconfigure.Settings{
		"a journal in the state directory": {StateDir: "/srv/state"},
		"a service of systemd's":           {StateDir: "/srv/state", Worker: reconfigure.WorkerSystemd},
		"a journal elsewhere": {
			StateDir: "/srv/state", Journal: "postgres://eiffel@db/journal?sslmode=verify-full",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := Site{Dir: t.TempDir(), Cluster: reconfigure.Cluster{Settings: settings}}
			if err := s.Remember(); err != nil {
				t.Fatal(err)
			}
			recalled, err := Recall(s.Dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(settings, recalled.Cluster.Settings); diff != "" {
				t.Errorf("recalled (-remembered +recalled):\n%s", diff)
			}
		})
	}
}
