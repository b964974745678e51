package harness

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation/operationtest"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurm"
	"github.com/eiffel-hpc/eiffel/reconfigure/ssh"
)

// ConformSlurm runs the conformance suite of the simulated Slurm with the real one. The node is a cloud node; it is
// powered down before and after.
func (l *Lab) ConformSlurm(t *testing.T, node string) {
	t.Helper()
	control, ok := l.Server(cluster.ControlNodeName)
	if !ok {
		t.Fatal("there is no control node")
	}
	known := ssh.KnownHosts{Path: filepath.Join(l.Directory(), "state", "known_hosts")}
	key := filepath.Join(l.Directory(), "state", "slurm_key")
	remote := l.OnControlHost(t.Context(), l.Directory(),
		known.Command(l.Declaration.LoginUser, control.Addresses[0].String(), key)...)
	client := slurm.New(slurm.Config{
		SSH: remote.Args, Keep: true,
		Run: func(ctx context.Context, c process.Cmd) error {
			c.Env = remote.Env
			return process.Run(ctx, c)
		},
	})
	t.Cleanup(client.Close)
	service := func(do string) {
		if out, err := l.Command(cluster.ControlNodeName, "service", "slurmctld", do).CombinedOutput(); err != nil {
			t.Errorf("service slurmctld %s: %v\n%s", do, err, out)
		}
	}
	operationtest.TestScheduler(t, operationtest.SchedulerSetup{
		Scheduler: client,
		Node:      node,
		Silence:   func() (speak func()) { service("stop"); return func() { service("start") } },
		Occupy: func() (free func()) {
			id := l.Job(t, "--nodelist="+node, Until)
			l.AwaitJob(t, id, "RUNNING")
			return func() { l.LetGo(t, node) }
		},
		Patience: 2 * time.Minute,
	})
	onControl := func(words ...string) string {
		out, err := l.Command(cluster.ControlNodeName, words...).CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", words, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	var jobs [3]int64
	for i := range jobs {
		id := onControl("sbatch", "--hold", "--parsable", "--chdir=/tmp", "--output=/dev/null", "--wrap=true")
		var err error
		if jobs[i], err = strconv.ParseInt(id, 10, 64); err != nil {
			t.Fatal(err)
		}
		defer onControl("scancel", id)
	}
	operationtest.TestCommenter(t, operationtest.CommenterSetup{
		Commenter: client, Jobs: jobs,
		Remark: func(job int64, text string) {
			onControl("scontrol", "update", fmt.Sprint("JobId=", job), "AdminComment="+text)
		},
		Comment: func(job int64) string {
			_, comment, _ := strings.Cut(onControl("scontrol", "show", "job", fmt.Sprint(job)), "AdminComment=")
			comment, _, _ = strings.Cut(comment, "\n")
			return strings.TrimSpace(comment)
		},
	})
	l.AwaitQuiet(t)
}
