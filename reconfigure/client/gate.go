package client

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/gate"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// Gate decides on a call from sshd for one key. It returns the call, and a context for which Caller returns that key.
// The error gate.ErrRefused is final, even if it could not be recorded; after any other error the call may be
// retried.
func Gate(ctx context.Context, dir string, key gate.Key) (context.Context, gate.Call, error) {
	from := cmp.Or(peer(os.Getenv), "an unknown address")
	connection := gate.Connection{Key: key, Peer: from, Command: os.Getenv("SSH_ORIGINAL_COMMAND"), Time: time.Now()}
	call, fault := gate.Parse(key, connection.Command)
	err := admit(ctx, dir, connection, fault)
	if fault != nil {
		err = gate.ErrRefused
	}
	return context.WithValue(ctx, callerKey{}, key.Name()+" from "+from), call, err
}

// admit checks a call against the limits of its key, and records a refusal.
func admit(ctx context.Context, dir string, a gate.Connection, fault error) error {
	s, err := site.Open(dir)
	if err != nil { // a request is accepted even if the declaration cannot be read
		if s, err = site.Recall(dir); err != nil {
			return err
		}
	}
	log, err := s.Journal(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	var decision error
	err = log.UpdateKeyUse(ctx, a.Key.Name(), func(known reconfigure.KeyUse, pending int) reconfigure.KeyUse {
		known, decision = gate.Admit(known, a, pending, fault)
		return known
	})
	return cmp.Or(err, decision)
}
