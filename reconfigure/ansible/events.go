package ansible

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// event is a line of the callback plugin's, ansible/callback_plugins/reconfigure_events.py.
type event struct {
	Event   string `json:"event"`
	Plays   int    `json:"plays"` // how many there are
	Host    string `json:"host"`
	Task    string `json:"task"`
	Message string `json:"message"`
	Output  string `json:"output"`  // all that the task has printed; of a failure
	Ignored bool   `json:"ignored"` // reports whether the host stays in the run, after a failure
	Rescued bool   `json:"rescued"` // reports whether the failure may not be the host's last word
}

// The kinds of events.
const (
	eventPlaybook    = "playbook"    // the playbook was read
	eventPlay        = "play"        // the next play begins
	eventStart       = "start"       // a task begins on a host
	eventDone        = "done"        // the last task of a host ended well
	eventFailed      = "failed"      // a task failed on a host, which is out of the run now unless that is ignored
	eventUnreachable = "unreachable" // likewise
)

// failure is what a failing event says, for people. What the task has printed goes with it.
func (e event) failure() error {
	err := fmt.Errorf("task %q: %s", e.Task, e.Message)
	if e.Event == eventUnreachable {
		err = reconfigure.Classify(reconfigure.ClassSSH, fmt.Errorf("could not be reached: %s", e.Message))
	}
	if e.Output == "" {
		return err
	}
	return reconfigure.WithOutput(fmt.Sprintf("task: %s\n%s\n", e.Task, strings.TrimSpace(e.Output)), err)
}

// fails reports whether the event means that its host has failed.
func (e event) fails() bool {
	return (e.Event == eventFailed || e.Event == eventUnreachable) && !e.Ignored
}

// final reports whether nothing that follows changes the result of the event's host.
func (e event) final() bool {
	return e.Event == eventDone || e.fails() && !e.Rescued
}

func (e event) tell(changed nodeset.NodeSet, watch func(node, message string)) {
	mine := changed.Contains(e.Host)
	switch e.Event {
	case eventStart:
		if mine {
			watch(e.Host, e.Task)
		}
	case eventFailed, eventUnreachable:
		if mine {
			watch(e.Host, e.failure().Error())
		} else {
			watch(e.Host, "does not know of the latest changes: "+e.failure().Error())
		}
	}
}

// record is what is known of a run from its events.
type record struct {
	plays, begun int
	last         string           // the host that failed last: where a run ends early, it is one of those that ended it
	failed       map[string]error // by host
	done         map[string]bool  // by host; reports whether its last task ended well
}

func (r *record) add(e event) {
	if r.failed == nil {
		r.failed, r.done = map[string]error{}, map[string]bool{}
	}
	switch {
	case e.Event == eventPlaybook:
		r.plays = e.Plays
	case e.Event == eventPlay:
		r.begun++
	case e.Event == eventDone:
		r.done[e.Host] = true
		delete(r.failed, e.Host) // what failed was rescued
	case e.fails():
		r.last = e.Host
		r.failed[e.Host] = e.failure() // the last one, since a task that rescues what failed knows more
	}
}

// verdicts says which changed nodes failed, from what was seen of a run and how Ansible ended. A run whose hosts all
// fail in a play ends there, and the nodes that waited for a later play were not configured. Only a node whose last
// task ended well did not fail.
func (r record) verdicts(changed nodeset.NodeSet, end error) (reconfigure.Failures, error) {
	whole := r.plays > 0 && r.begun == r.plays
	if !aboutHosts(end) || !whole && r.last == "" {
		if end == nil {
			end = errors.New("the playbook ended well, but its last play never began")
		}
		return nil, end
	}
	failures := reconfigure.Failures{}
	for node := range changed.All() {
		switch {
		case r.failed[node] != nil:
			failures[node] = r.failed[node]
		case r.done[node]:
		case whole:
			failures[node] = errors.New("not configured: the run ended without its last task")
		default:
			failures[node] = fmt.Errorf("not configured, because the run ended at %s: %w", r.last, r.failed[r.last])
		}
	}
	return failures, nil
}

// aboutHosts reports whether Ansible ran to an end of its own and any trouble was that of hosts: its exit status is
// then a sum of 2 (a task failed), 4 (unreachable) and 8 (no host was left in a play), by RUN_ in its TaskQueueManager.
// It is 4 for a playbook that cannot be read too, but then no host has failed.
func aboutHosts(end error) bool {
	if end == nil {
		return true
	}
	var ended *process.Error
	const hosts = 2 | 4 | 8
	return errors.As(end, &ended) && ended.Err == nil && ended.Code > 0 && ended.Code&^hosts == 0
}

// stream is the pipe on which the events come.
type stream struct{ reader, writer *os.File }

// linger is how long events are waited for after Ansible has ended, should a process that it left behind hold the pipe
// open.
const linger = time.Second

// listen makes a named pipe and opens both ends: as long as we hold the writing end, the reading one does not come to
// its end because Ansible has not opened the pipe yet.
func listen(path string) (stream, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return stream{}, fmt.Errorf("make a pipe for Ansible's events: %w", err)
	}
	// Not blocking, so that opening does not wait for a writer, and that a read may have a deadline.
	reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return stream{}, fmt.Errorf("open the pipe for Ansible's events: %w", err)
	}
	writer, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return stream{}, fmt.Errorf("open the pipe for Ansible's events: %w", errors.Join(err, reader.Close()))
	}
	return stream{reader: reader, writer: writer}, nil
}

// read hands each event over until the pipe has come to its end.
func (s stream) read(handle func(event)) error {
	defer func() { _ = s.reader.Close() }()
	lines := bufio.NewReader(s.reader)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
		}
		handle(e)
	}
}

// end lets read come to the pipe's end, once Ansible has ended.
func (s stream) end() {
	_ = s.writer.Close()
	_ = s.reader.SetReadDeadline(time.Now().Add(linger))
}
