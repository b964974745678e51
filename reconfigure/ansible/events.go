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

// event is a line of the callback plugin ansible/callback_plugins/reconfigure_events.py.
type event struct {
	Event   string `json:"event"`
	Plays   int    `json:"plays"` // the number of plays in the playbook
	Host    string `json:"host"`
	Task    string `json:"task"`
	Message string `json:"message"`
	Output  string `json:"output"`  // of a failure: the task's whole output
	Ignored bool   `json:"ignored"` // reports whether the host stays in the run after this failure
	Rescued bool   `json:"rescued"` // reports whether tasks of a rescue section may follow
	// Unhealthy reports, for a failure, whether a health check of the host failed.
	Unhealthy bool `json:"unhealthy"`
	Here      bool `json:"here"` // of a failure: reports whether the control host failed, not the host

	Hardware string `json:"hardware"` // of a last task: what `slurmd -C` prints on the host
	Clock    int64  `json:"clock"`    // of a last task: the seconds that the host's clock is ahead of the control host's

	Seconds float64 `json:"seconds"` // of an installation of packages: how long it took
	Waited  float64 `json:"waited"`  // likewise: the seconds for which other programs held the package manager's locks
}

// The kinds of events.
const (
	eventPlaybook    = "playbook"    // the playbook was read
	eventPlay        = "play"        // the next play begins
	eventStart       = "start"       // a task begins on a host
	eventInstalled   = "installed"   // packages that the image lacks were installed on a host
	eventDone        = "done"        // the last task of a host succeeded
	eventFailed      = "failed"      // a task failed on a host, which leaves the run unless the failure is ignored
	eventUnreachable = "unreachable" // likewise
	eventLeft        = "left"        // after the last play: the host has left the run with a failure
)

// failure returns the error of a failure event, with the output of its task.
func (e event) failure() error {
	err := fmt.Errorf("task %q: %s", e.Task, e.Message)
	if e.Event == eventUnreachable {
		err = reconfigure.Classify(reconfigure.ClassSSH, fmt.Errorf("could not be reached: %s", e.Message))
	}
	if e.Unhealthy {
		err = reconfigure.Classify(reconfigure.ClassUnhealthy, errors.New(e.Message))
	}
	if e.Here {
		err = reconfigure.Classify(reconfigure.ClassAnsible, fmt.Errorf("on the control host: %w", err))
	}
	if e.Output == "" {
		return err
	}
	return reconfigure.WithOutput(fmt.Sprintf("task: %s\n%s\n", e.Task, strings.TrimSpace(e.Output)), err)
}

// seen returns before with the facts of the event about its host.
func (e event) seen(before reconfigure.Configured) reconfigure.Configured {
	switch e.Event {
	case eventInstalled:
		before.Installing += time.Duration(e.Seconds * float64(time.Second))
	case eventDone:
		before.Clock = time.Duration(e.Clock) * time.Second
	}
	return before
}

// fails reports whether the event means that its host has failed.
func (e event) fails() bool {
	return (e.Event == eventFailed || e.Event == eventUnreachable) && !e.Ignored
}

// final reports whether the event decides the result of its host: no later event changes it.
func (e event) final() bool {
	return e.Event == eventDone || e.fails() && !e.Rescued
}

// tell passes the event's message, if it has one, to watch.
func (e event) tell(changed nodeset.NodeSet, watch func(node, message string)) {
	mine := changed.Contains(e.Host)
	switch e.Event {
	case eventStart:
		if mine {
			watch(e.Host, e.Task)
		}
	case eventInstalled:
		if mine {
			watch(e.Host, fmt.Sprintf("packages were installed in %.0f s; for %.0f s of them other programs, such as those "+
				"of the first boot, held the package manager's locks", e.Seconds, e.Waited))
		}
	case eventFailed, eventUnreachable:
		if mine {
			watch(e.Host, e.failure().Error())
		} else {
			watch(e.Host, "does not have the latest changes: "+e.failure().Error())
		}
	}
}

// record collects the results of a run from its events.
type record struct {
	plays, begun int
	last         string           // the host that failed last: a host that ended the run, if it ended early
	failed       map[string]error // by host
	done         map[string]bool  // by host: its last task succeeded
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
		delete(r.failed, e.Host) // the failed task was rescued
	case e.fails():
		r.last = e.Host
		r.failed[e.Host] = e.failure() // the last failure counts: one in a rescue section says more
	}
}

// verdicts returns the failures of the changed nodes, from the events of a run and Ansible's error. A run ends at a
// play in which all hosts fail, and the nodes of later plays are not configured. Only a node whose last task ended
// well did not fail.
func (r record) verdicts(changed nodeset.NodeSet, end error) (reconfigure.Failures, error) {
	whole, err := r.whole(end)
	if err != nil {
		return nil, err
	}
	failures := reconfigure.Failures{}
	for node := range changed.All() {
		switch {
		case r.failed[node] != nil:
			failures[node] = r.failed[node]
		case r.done[node]:
		case whole:
			failures[node] = noResult(errors.New("not configured: the run ended before its last task"))
		default:
			failures[node] = r.notReached()
		}
	}
	return failures, nil
}

// whole reports whether all plays of the playbook began. An error means that the run had another end than failures of
// hosts.
func (r record) whole(end error) (bool, error) {
	whole := r.plays > 0 && r.begun == r.plays
	if aboutHosts(end) && (whole || r.last != "") {
		return whole, nil
	}
	if end == nil {
		end = errors.New("the playbook succeeded, but its last play never began")
	}
	return false, end
}

// notReached is the failure of a node of a play that did not begin.
func (r record) notReached() error {
	return noResult(fmt.Errorf("not configured, because the run ended at %s: %w", r.last, r.failed[r.last]))
}

// noResult is the failure of a node without a result. It says nothing about the node's instance, even if err is the
// failure of another host.
func noResult(err error) error { return reconfigure.Classify(reconfigure.ClassAnsible, err) }

// aboutHosts reports whether Ansible ran to its end, so that all failures are those of hosts. Its exit status is then
// a sum of 2 (a task failed), 4 (unreachable) and 8 (no host was left in a play); see RUN_ in Ansible's
// TaskQueueManager. The status is also 4 if a playbook cannot be read, but then no host has failed.
func aboutHosts(end error) bool {
	if end == nil {
		return true
	}
	var ended *process.Error
	const hosts = 2 | 4 | 8
	return errors.As(end, &ended) && ended.Err == nil && ended.Code > 0 && ended.Code&^hosts == 0
}

// stream is the pipe for the events.
type stream struct{ reader, writer *os.File }

// linger is how long events are read after Ansible has ended, in case one of its child processes still has the pipe
// open.
const linger = time.Second

// listen creates a named pipe and opens both ends: while the writing end is open, the reading end has no end of file
// before Ansible opens the pipe.
func listen(path string) (stream, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return stream{}, fmt.Errorf("make a pipe for Ansible's events: %w", err)
	}
	// O_NONBLOCK: the open does not wait for a writer, and a read may have a deadline.
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

// discard closes both ends.
func (s stream) discard() { _, _ = s.reader.Close(), s.writer.Close() }

// read calls handle with each event until the end of the pipe.
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

// end makes read return after Ansible has ended.
func (s stream) end() {
	_ = s.writer.Close()
	_ = s.reader.SetReadDeadline(time.Now().Add(linger))
}
