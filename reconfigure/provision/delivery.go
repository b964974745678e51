package provision

import (
	"errors"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// state is the state of a delivery.
type state string

const (
	asked     state = "asked"     // Terraform carries it out
	cutOff    state = "cut off"   // Terraform was interrupted; the cloud may still carry it out
	untried   state = "untried"   // Terraform was interrupted before it began; the next run carries it out
	delivered state = "delivered" // the caller has its instance; Terraform's state may lack it
	gone      state = "gone"      // the caller knows that the instance is gone; Terraform's state may still have it
	broken    state = "broken"    // the caller knows that the instance is in ERROR
	ended     state = "ended"     // Terraform's own verdict, or the deadline, has ended it
)

// given reports whether the caller has its result, and Terraform's own verdict is not known.
func (s state) given() bool { return s == delivered || s == gone || s == broken }

// news changes the state of a delivery.
type news string

const (
	shows      news = "the cloud shows the instance as asked"
	vanishes   news = "the cloud no longer has the instance that is removed"
	breaks     news = "the cloud has the instance in ERROR"
	succeeds   news = "Terraform has done it"
	fails      news = "Terraform has failed"
	interrupts news = "Terraform was interrupted in it"
	skips      news = "Terraform did not get to it"
	expires    news = "the deadline of an interrupted change has expired"
)

// transitions has the next state by news. Other news cannot come in a state.
var transitions = map[state]map[news]state{
	asked: {
		shows: delivered, vanishes: gone, breaks: broken,
		succeeds: ended, fails: ended, interrupts: cutOff, skips: untried,
	},
	// The caller keeps its result if Terraform does not complete the change: the state is updated afterwards.
	delivered: {succeeds: ended, fails: delivered, interrupts: delivered, skips: delivered},
	gone:      {succeeds: ended, fails: gone, interrupts: gone, skips: gone},
	broken:    {succeeds: ended, fails: broken, interrupts: broken, skips: broken},
	cutOff:    {shows: delivered, vanishes: gone, breaks: broken, expires: ended},
	untried:   {shows: delivered, vanishes: gone, breaks: broken},
	ended:     {},
}

// on enters the next state. News that cannot come in this state change nothing.
func (d *delivery) on(n news) {
	if next, ok := transitions[d.state][n]; ok {
		d.state = next
	}
}

// verdictOf converts Terraform's result for a node to news about its delivery; a nil failure is success.
func verdictOf(failure error) news {
	switch {
	case failure == nil:
		return succeeds
	case errors.Is(failure, reconfigure.ErrUntried):
		return skips
	case errors.Is(failure, reconfigure.ErrInterrupted):
		return interrupts
	}
	return fails
}
