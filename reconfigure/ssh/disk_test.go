package ssh

import (
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// disk is an instance at the address of a machine.
func (m *machine) disk(id, image string) reconfigure.Instance {
	return reconfigure.Instance{Node: "node01", ID: id, Address: m.address, Made: reconfigure.Spec{ImageID: image}}
}

// TestALearnedKeyIsOfOneDisk learns the key of an instance, and then meets a machine at the same address whose disk may
// be new: a worker has died, and the next one does not know how far it came.
func TestALearnedKeyIsOfOneDisk(t *testing.T) {
	old, renewed := newKey(t, "ed25519"), newKey(t, "ed25519")
	const empty = "login: " // a reboot has cleared it
	for name, test := range map[string]struct {
		is      reconfigure.Instance
		has     ssh.Signer
		console string
		want    string // the error; empty: none
		known   bool
	}{
		"the same disk after a reboot":           {(&machine{}).disk("a", "v1"), old, empty, "", true},
		"the same disk with another key":         {(&machine{}).disk("a", "v1"), renewed, empty, "not with one that is known", true},
		"its image is unknown":                   {(&machine{}).disk("a", ""), old, empty, "", true},
		"a rebuilt disk":                         {(&machine{}).disk("a", "v2"), renewed, block(renewed.PublicKey()), "", false},
		"a rebuilt disk with the key of the old": {(&machine{}).disk("a", "v2"), old, empty, "no host keys in its console", false},
		"another instance":                       {(&machine{}).disk("b", "v1"), renewed, block(renewed.PublicKey()), "", false},
		"another instance with the key of the old": {
			(&machine{}).disk("b", "v1"), old, block(renewed.PublicKey()), "not with one that its console", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := boot(t, old)
			w, _ := newWaiter(t, reconfigure.HostKeysConsole, block(old.PublicKey()))
			noError(t, w.Wait(t.Context(), m.disk("a", "v1"), true))
			m.rebuild(test.has)
			next, _ := newWaiter(t, reconfigure.HostKeysConsole, test.console)
			next.config.Known.Keeper, next.keeper = w.config.Known.Keeper, w.keeper
			test.is.Address = m.address
			known, err := next.Known(t.Context(), test.is)
			if noError(t, err); known != test.known {
				t.Errorf("known: %t", known)
			}
			m.is = test.is
			if test.want != "" {
				next.refuses(t, m, false, test.want)
				return
			}
			next.mustAnswer(t, m, false)
			expectKeys(t, next.config.Known, m.address, test.has.PublicKey())
			if known, err := next.Known(t.Context(), test.is); err != nil || !known {
				t.Errorf("known after it has answered: %t, %v", known, err)
			}
		})
	}
}

// TestAKeyOfAnUnknownDiskCounts has a key that was stored before keys were stored with their disks.
func TestAKeyOfAnUnknownDiskCounts(t *testing.T) {
	key := newKey(t, "ed25519")
	m := boot(t, key)
	w, reads := newWaiter(t, reconfigure.HostKeysConsole, "login: ")
	w.config.Known.learnt(t, m.address, key.PublicKey())
	m.is = m.disk("a", "v1")
	if known, err := w.Known(t.Context(), m.is); err != nil || !known {
		t.Errorf("known: %t, %v", known, err)
	}
	w.mustAnswer(t, m, false)
	if reads.Load() > 0 {
		t.Error("the console was read")
	}
	m.is = m.disk("b", "v1") // by now the key is stored with its disk
	if known, err := w.Known(t.Context(), m.is); err != nil || known {
		t.Errorf("known of another instance: %t, %v", known, err)
	}
}

func TestAnInstanceWithoutAKeyIsNotKnown(t *testing.T) {
	m := boot(t, newKey(t, "ed25519"))
	w, _ := newWaiter(t, reconfigure.HostKeysAcceptNew)
	if known, err := w.Known(t.Context(), m.instance()); err != nil || known {
		t.Errorf("known: %t, %v", known, err)
	}
}
