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
		kind   reconfigure.Kind
		effect reconfigure.Effect
		shared bool
		want   bool
	}{
		"a creation":             {instance, reconfigure.EffectCreate, false, true},
		"a rebuild":              {instance, reconfigure.EffectRebuild, false, true},
		"a replacement":          {instance, reconfigure.EffectReplace, false, true},
		"a removal":              {instance, reconfigure.EffectDelete, false, true},
		"a stop":                 {instance, reconfigure.EffectStop, false, true},
		"a port":                 {port, reconfigure.EffectCreate, false, true},
		"a resize":               {instance, reconfigure.EffectResize, false, false},
		"an update in place":     {instance, reconfigure.EffectUpdate, false, false},
		"an update of a port":    {port, reconfigure.EffectUpdate, false, false},
		"a resource of the site": {"", reconfigure.EffectCreate, false, false},
		"a shared plan":          {instance, reconfigure.EffectCreate, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := reconfigure.Preview{Plan: reconfigure.Plan{Shared: tc.shared}, Changes: []reconfigure.ResourceChange{
				{Kind: instance, Effect: reconfigure.EffectCreate}, {Kind: tc.kind, Effect: tc.effect},
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
