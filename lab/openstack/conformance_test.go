package openstack

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cloudtest"
)

// TestItAnswersAsTheLabsChecksSay runs the checks that labcloud passes too.
func TestItAnswersAsTheLabsChecksSay(t *testing.T) {
	released(t)
	passed := t.Run("cloud", func(t *testing.T) {
		Start(t)
		cloud, err := cloudtest.Connect(t.Context(), "openstack", Member(), Admin())
		if err != nil {
			t.Fatal(err)
		}
		cloudtest.Run(t, cloud)
	})
	writeTested(t, passed)
	nothingIsLeft(t)
}
