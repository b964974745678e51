package provision

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Terraform waits for the cloud alone where it makes, rebuilds, replaces, removes, starts or stops an instance. Any
// other change would be left half done.
func TestWhichRunsOfTerraformMayBeInterrupted(t *testing.T) {
	instance, port := reconfigure.KindInstance, reconfigure.KindPort
	for name, tc := range map[string]struct {
		node   string
		kind   reconfigure.Kind
		effect reconfigure.Effect
		want   bool
	}{
		"a creation":                     {"n", instance, reconfigure.EffectCreate, true},
		"a rebuild":                      {"n", instance, reconfigure.EffectRebuild, true},
		"a replacement":                  {"n", instance, reconfigure.EffectReplace, true},
		"a removal":                      {"n", instance, reconfigure.EffectDelete, true},
		"a stop":                         {"n", instance, reconfigure.EffectStop, true},
		"a port":                         {"n", port, reconfigure.EffectCreate, true},
		"a resize":                       {"n", instance, reconfigure.EffectResize, false},
		"an update in place":             {"n", instance, reconfigure.EffectUpdate, false},
		"an update of a port":            {"n", port, reconfigure.EffectUpdate, false},
		"a resource of the site":         {"n", "", reconfigure.EffectCreate, false},
		"a shared resource":              {"", "", reconfigure.EffectCreate, true},
		"an update of a shared resource": {"", "", reconfigure.EffectUpdate, true},
		"a replaced shared resource":     {"", "", reconfigure.EffectReplace, false},
		"a removed shared resource":      {"", "", reconfigure.EffectDelete, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := reconfigure.Preview{Changes: []reconfigure.ResourceChange{
				{Node: "m", Kind: instance, Effect: reconfigure.EffectCreate}, {Node: tc.node, Kind: tc.kind, Effect: tc.effect},
			}}
			if got := interruptible(p); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWhichServersAreAsAsked(t *testing.T) {
	spec := reconfigure.Spec{Group: "g", ImageID: "v2", FlavorID: "f"}
	as := func(change func(*reconfigure.Server)) reconfigure.Server {
		s := reconfigure.Server{Status: reconfigure.ServerActive, ImageID: "v2", FlavorID: "f", Group: "g"}
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		server reconfigure.Server
		want   bool
	}{
		"all is as asked":               {as(func(*reconfigure.Server) {}), true},
		"the list does not say of what": {reconfigure.Server{Status: reconfigure.ServerActive}, true},
		"another image":                 {as(func(s *reconfigure.Server) { s.ImageID = "v1" }), false},
		"another flavor":                {as(func(s *reconfigure.Server) { s.FlavorID = "small" }), false},
		"another group":                 {as(func(s *reconfigure.Server) { s.Group = "h" }), false},
		"it is being made":              {as(func(s *reconfigure.Server) { s.Status = "BUILD" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := asAsked(tc.server, spec); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
