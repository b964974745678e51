package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// Run carries out the waiting requests, compares the sources when that is due, and removes old data. With once it
// returns when everything that can be carried out now is done; with stay it does not return by itself.
func Run(ctx context.Context, s site.Site, log *journal.Journal, out *slog.Logger, once, stay bool) error {
	if s.Cluster.Settings.Journal != "" { // another control host may have made changes that the files here lack
		if err := s.Adopt(ctx, log); err != nil {
			out.WarnContext(ctx, "the files of this host could not be updated", "reason", err.Error())
		}
	}
	tidy := tidier{
		log: log, stamp: s.StateFile("pruned"), keep: s.Cluster.Settings.Keep, out: out,
		rest: func(now, before time.Time) error { return prune(s, now, before) },
	}
	return tidy.during(ctx, func() error { return control(ctx, s, log, out, once, stay) })
}

// control runs the controller.
func control(ctx context.Context, s site.Site, log *journal.Journal, out *slog.Logger, once, stay bool) error {
	var lost atomic.Int64
	recorder := journal.NewRecorder(log.Record, func(err error, events []reconfigure.Event) {
		lost.Add(int64(len(events)))
		out.WarnContext(ctx, "events could not be written", "events", len(events), "reason", err.Error())
	})
	open := &opener{dir: s.Dir, log: log, recorder: recorder, logger: out}
	defer open.close()
	notifier, end := notifies(ctx, s, log, out)
	defer export(ctx, s, log, lost.Load, notifier, out)()
	defer end()
	config := controller.Config{
		Journal: log, Open: open.open, Flush: recorder.Flush, Log: out, Stay: stay, Once: once, Campaign: open.campaigns(),
		Succeed: func(ctx context.Context) error { return Start(ctx, s) },
	}
	self, err := thisProgram()
	if err != nil {
		return err
	}
	if !once {
		config.Reconcile = reconciler(s, log, out, self)
	}
	if stay {
		config.Replaced = self.replaced
	}
	err = controller.Run(ctx, config)
	if stay && err == nil {
		out.InfoContext(ctx, "this program was replaced: the worker ends, so that its supervisor starts the new one",
			"program", self.path)
	}
	return errors.Join(err, recorder.Close(context.WithoutCancel(ctx)))
}

// opener opens the site for each plan. It reuses the last one if the declaration has not changed.
type opener struct {
	dir      string
	log      *journal.Journal
	recorder *journal.Recorder
	logger   *slog.Logger

	wait sync.WaitGroup // for the reading of jobs, and for the end of replaced adapters

	lock     sync.Mutex
	sum      string
	last     *site.Adapters
	jobsKept time.Time
}

func (o *opener) open(ctx context.Context) (controller.Site, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	s, err := site.Open(o.dir)
	if err != nil {
		return controller.Site{}, err
	}
	opened := controller.Site{Cluster: s.Cluster}
	if err := s.UpToDate(ctx, o.log); err != nil {
		return opened, err
	}
	declared, err := s.Declaration()
	if err != nil {
		return opened, err
	}
	if err := s.PutRootModule(ctx); err != nil {
		return opened, err
	}
	if key := fmt.Sprint(declared.Sum, credentials(s)); o.last == nil || key != o.sum {
		if err := s.Adopt(ctx, o.log); err != nil {
			return opened, err
		}
		if err := s.Mark(ctx, o.log, o.logger); err != nil {
			return opened, err
		}
		if o.last != nil {
			o.wait.Go(o.last.Close) // running operations still use them
		}
		o.last, o.sum = s.Adapters(o.log, o.logger), key
	}
	observer := o.last.Observer()
	opened.Observe = o.keepingJobs(observer.Observe, s.Cluster)
	opened.States, opened.Conf = observer.States, o.last.Conf
	opened.Deps, err = o.last.Deps(context.WithoutCancel(ctx), o.recorder)
	return opened, err
}

// credentials returns the file with the cloud's credentials, and its modification time.
func credentials(s site.Site) string {
	path := s.Provider.Credentials(s.Dir)
	info, err := os.Stat(path)
	if err != nil {
		return path
	}
	return fmt.Sprint(path, info.ModTime().UnixNano())
}

func (o *opener) close() {
	o.wait.Wait()
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.last != nil {
		o.last.Close()
	}
}

// Start starts a worker that outlives this call, directly or through systemd, as declared.
func Start(ctx context.Context, s site.Site) error {
	if s.Starter == reconfigure.WorkerSystemd {
		return startService(ctx, s.Dir)
	}
	return detach(s)
}

// detach starts a worker that survives a kill or hang-up of this call. The worker ends at once if another one is
// active.
func detach(s site.Site) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	logFile, err := s.Logs().Open("worker.log")
	if err != nil {
		return err
	}
	defer logFile.Close()
	return process.Detach(process.Cmd{
		Path: self, Args: []string{"--dir", s.Dir, "worker"}, Dir: s.Dir, Env: site.Environment(os.Environ()),
		Stdout: logFile, Stderr: logFile,
	})
}
