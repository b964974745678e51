package terraform

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// A slow receiver does not block the sender, and gets everything in order.
func TestRelayNeverBlocksItsSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var heard []string
		r := newRelay(func(node, message string) {
			<-free
			heard = append(heard, node+" "+message)
		})
		var want []string
		for i := range 3 {
			r.send("n", fmt.Sprint(i))
			want = append(want, "n "+fmt.Sprint(i))
			synctest.Wait()
		}
		close(free)
		r.close()
		if diff := cmp.Diff(want, heard); diff != "" {
			t.Error(diff)
		}
	})
}
