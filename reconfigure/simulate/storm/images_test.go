package storm

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// TestStormOfImages runs storms of requests for images, while workers die and the cloud, Slurm and the playbooks fail.
func TestStormOfImages(t *testing.T) {
	kinds := []string{
		"image", "images are slow", "jobs need", "jobs start on", "jobs end on", "Slurm gives up", "update", "kill",
		"kill now", "stop", "node fault", "cluster fault", "somebody drains", "somebody undrains",
		"time passes", "time passes",
	}
	kinds = append(kinds, slices.Repeat([]string{"image"}, 5)...)
	faults := []simulate.Fault{
		simulate.NoImage, simulate.ImageLost, simulate.NeverRemoved, simulate.NoSSH, simulate.PlaybookFails,
		simulate.SlurmRefuses, simulate.NeverRegisters, simulate.LostPoll,
	}
	blow(t, func(t *rapid.T) []step { return drawStepsOf(t, kinds, faults) })
}
