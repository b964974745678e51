package operation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// wantLives checks how far the instances of a node came, oldest first, and that their times are in order.
func (l *lab) wantLives(node string, want ...string) {
	l.Helper()
	var got []string
	for _, life := range l.Lives() {
		if life.Node != node {
			continue
		}
		if life.Group != "group" || life.ImageID != l.Spec(node).ImageID || life.Plan != 7 {
			l.Errorf("the life is %+v", life)
		}
		steps := []time.Time{life.Planned, life.Made, life.Booted, life.Configured, life.Registered, life.Removed}
		var came []string
		names := []string{"planned", "made", "booted", "configured", "registered", "removed"}
		last := time.Time{}
		for i, at := range steps {
			if at.IsZero() {
				continue
			}
			if at.Before(last) {
				l.Errorf("%s was %s before the step before it", node, names[i])
			}
			came, last = append(came, names[i]), at
		}
		if life.Failed != "" {
			came = append(came, "failed: "+life.Failed)
		}
		got = append(got, strings.Join(came, " "))
	}
	l.want("lives of "+node, want, got)
}

const cameUp = "planned made booted configured registered"

func TestTheLifeOfAnInstanceIsRecorded(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 0, "p3", "p4")
		l.wantDone("p3", "p4")
		l.wantLives("p3", cameUp)
		before := l.Lives()
		l.plan = reconfigure.Plan{}
		l.PowersDown("p3")
		l.wants(reconfigure.Remove, "p3")
		l.wantDone("p3")
		l.wantLives("p3", cameUp+" removed")
		l.wantLives("p4", cameUp)
		instance := func(node string) string {
			i := slices.IndexFunc(before, func(life reconfigure.Life) bool { return life.Node == node })
			return before[i].Instance
		}
		l.want("its instance", l.Node("p4").Instance.ID, instance("p4"))
	})
}

func TestTheLifeOfAnInstanceThatDoesNotComeUpIsRecorded(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 1, "p3")
		l.Order(simulate.Lemon, "p3")
		l.wantDone("p3")
		l.wantLives("p3", "planned made removed failed: no-ssh: no SSH: it did not answer in time", cameUp)
		if lives := l.Lives(); lives[0].Instance == lives[1].Instance {
			t.Errorf("both are %s", lives[0].Instance)
		}
	})
}

// The cloud names the host of a new instance only after some time.
func TestTheHostOfAFailedInstanceIsRecorded(t *testing.T) {
	for name, fails := range map[string]func(*lab){
		"never active":    func(l *lab) { l.Takes(simulate.Building, simulate.Forever) },
		"no SSH":          func(l *lab) { l.Order(simulate.NoSSH, "p3") },
		"playbook":        func(l *lab) { l.Order(simulate.PlaybookFails, "p3") },
		"never registers": func(l *lab) { l.Order(simulate.NeverRegisters, "p3") },
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				l.NameHosts()
				l.resumes(9*time.Minute, 0, "p3")
				fails(l)
				l.carry()
				lives := l.Lives()
				if len(lives) != 1 || lives[0].Failed == "" || lives[0].Host != "host-of-"+lives[0].Instance {
					t.Errorf("lives: %+v", lives)
				}
				l.wantOrder("down p3")
			})
		})
	}
}

func TestARebuildIsAnotherLife(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.wantDone("p3")
		c := l.Cluster()
		c.Groups[0].Source.Image = "v2"
		l.Declare(c)
		l.cluster = c
		before := l.Node("p3").Instance.ID
		l.plan = reconfigure.Plan{}
		l.wants(reconfigure.Replace, "p3")
		l.change("p3").Force = true
		l.wantDone("p3")
		var images []string
		for _, life := range l.Lives() {
			images = append(images, life.ImageID)
			l.want("its instance", before, life.Instance)
		}
		l.want("images", []string{"id-of-v1", "id-of-v2"}, images)
		if lives := l.Lives(); !lives[0].Removed.Equal(lives[1].Made) || lives[1].Ended() {
			t.Errorf("the first ended at %s, and the second began at %s", lives[0].Removed, lives[1].Made)
		}
	})
}

// The hours of a stopped instance are not those of a node that is up.
func TestAStartBeginsAnotherLife(t *testing.T) {
	resting(t, reconfigure.IdleStop, func(l *lab) {
		l.wantLives("p3", cameUp+" removed")
		l.resumed("p3")
		l.wantDone("p3")
		lives := slices.DeleteFunc(l.Lives(), func(life reconfigure.Life) bool { return life.Node != "p3" })
		l.want("lives", 2, len(lives))
		l.want("its instance", lives[0].Instance, lives[1].Instance)
		if again := lives[1]; again.Ended() || again.Registered.IsZero() || again.Made.Sub(lives[0].Removed) < time.Minute {
			t.Errorf("the second life is %+v", again)
		}
	})
}
