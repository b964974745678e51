package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// The lead is a lock on one file; what people look at is another one that the leader keeps locked too. To look whether a file is locked is to lock it for a
// moment, and nobody who looks may make a process that wants to lead believe that another one does.
const (
	leadFile   = "lead.lock"
	leaderFile = "leader"
	watchFile  = "watch.lock"
)

// Lead takes the lead, without waiting; ok is false while another one has it, be it in this process. It ends with release, or with the process, whatever
// ends that: it is a lock of the kernel's (flock(2)) and not a file that could stay behind.
func (j *Journal) Lead(ctx context.Context) (release func() error, ok bool, err error) {
	lead := flock.New(filepath.Join(j.dir, leadFile))
	if ok, err = lead.TryLock(); err != nil {
		return nil, false, j.explain("take the lead", err)
	}
	if !ok {
		return nil, false, nil
	}
	shown := flock.New(filepath.Join(j.dir, leaderFile))
	if err := show(ctx, shown); err != nil {
		return nil, false, j.explain("say who leads", errors.Join(err, lead.Unlock()))
	}
	return func() error { return errors.Join(shown.Unlock(), lead.Unlock()) }, true, nil
}

// Watch has this process alone keep an eye on the requests that are held; ok is false while another one does. It ends as the lead does, and hinders nobody.
func (j *Journal) Watch(context.Context) (release func() error, ok bool, err error) {
	watch := flock.New(filepath.Join(j.dir, watchFile))
	if ok, err = watch.TryLock(); err != nil || !ok {
		return nil, false, j.explain("watch", err)
	}
	return watch.Unlock, true, nil
}

// show writes who leads into a file and keeps it locked. Only the leader writes it, so the text is whole whenever the file is locked for long.
func show(ctx context.Context, file *flock.Flock) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(file.Path(), []byte(text), 0o600); err != nil {
		return err
	}
	_, err = file.TryLockContext(ctx, time.Millisecond)
	return err
}

// Leader tells people who leads, "process 4711 on control since 2026-01-31T08:00:00Z"; empty where nobody does, or where it cannot be told. It is old news
// when it is read: to take the lead there is Lead.
func (j *Journal) Leader() string {
	file := flock.New(filepath.Join(j.dir, leaderFile))
	free, err := file.TryRLock()
	if err != nil {
		return ""
	}
	if free {
		_ = file.Unlock() // closing it, at the latest with the process, has the same effect
		return ""
	}
	text, err := os.ReadFile(file.Path())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
