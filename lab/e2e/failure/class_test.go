package failure_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/eiffel-hpc/eiffel/lab/browser"
	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// failurePatience is the time limit for operations of which one fails as late as possible, and for what follows.
const failurePatience = 12 * time.Minute

// way is a way in which a node fails. An administrator requests the node, and a job waits for it.
type way struct {
	node  string
	kind  labcloud.Kind // of the fault; empty if the fault is not in the cloud
	class reconfigure.Class
	words string // in the reason
	exit  int

	job    string
	caller *exec.Cmd
	told   *bytes.Buffer
	seen   bool // by the users of Slurm
}

// TestEveryClassOfFailure makes a node fail in each way, all at once, while one succeeds. The faults end when all
// failures are reported; then the jobs run.
func TestEveryClassOfFailure(t *testing.T) {
	declared := lab.Declaration
	lab.Redeclare(t, func(d *cluster.Declaration) {
		d.NodeGroups[2].Image, d.NodeGroups[3].Flavor = "node-v9", "huge"
	})
	ways := []*way{
		{node: "w01", kind: labcloud.QuotaExceeded, class: reconfigure.ClassQuota,
			words: "Quota exceeded for instances", exit: 6},
		{node: "w02", kind: labcloud.NoValidHost, class: reconfigure.ClassCapacity,
			words: "No valid host was found", exit: 6},
		{node: "w03", kind: labcloud.RateLimited, class: reconfigure.ClassRateLimit,
			words: "Too many requests", exit: 7},
		{node: "w04", kind: labcloud.Unavailable, class: reconfigure.ClassCloud,
			words: "temporary overloading or maintenance", exit: 7},
		{node: "w06", kind: labcloud.NeverBoots, class: reconfigure.ClassBoot, words: "console log", exit: 1},
		{node: "w07", kind: labcloud.NoSSHD, class: reconfigure.ClassSSH, words: "connection refused", exit: 1},
		{node: "w08", kind: labcloud.NoMunged, class: reconfigure.ClassPlaybook, words: "start munge", exit: 1},
		slurmdEnds("w09"),
		{node: "w10", kind: labcloud.Blocked, class: reconfigure.ClassSSH, words: "a security group", exit: 1},
		{node: "w11", kind: labcloud.FullDisk, class: reconfigure.ClassPlaybook,
			words: "No space left on device", exit: 1},
		{node: "w12", kind: labcloud.TruncatedConsole, class: reconfigure.ClassBoot,
			words: "the cloud cuts off the beginning of the console log", exit: 1},
		{node: "i01", class: reconfigure.ClassMissing, words: `image "node-v9"`, exit: 1},
		{node: "f01", class: reconfigure.ClassMissing, words: `flavor "huge"`, exit: 1},
	}
	for _, w := range ways {
		if w.kind == "" {
			continue
		}
		fault := labcloud.Fault{Kind: w.kind, Server: w.node, Count: 1000}
		if w.exit == 7 {
			fault.Call = "POST servers"
		}
		lab.Order(t, fault)
	}
	page := failTogether(t, ways, "w13")
	findInABrowser(t, page, "w02", "w06", "w08")
	for _, w := range ways {
		if w.kind != "" && !struck(w) {
			t.Errorf("the fault %s never occurred: that of %s proves nothing", w.kind, w.node)
		}
	}
	lab.Cloud.Faults().Clear(0)
	if err := lab.Declare(declared); err != nil {
		t.Fatal(err)
	}
	assertJobsComeToRun(t, ways)
}

// slurmdEnds is the failure of a node whose slurmd ends after its start. Since Debian 13, slurmd tells systemd when it
// is ready, so that its start fails.
func slurmdEnds(node string) *way {
	w := &way{node: node, kind: labcloud.NoSlurmd, class: reconfigure.ClassUnregistered,
		words: "slurmd did not register in time", exit: 1}
	if os.Getenv(harness.ReleaseVariable) == harness.Trixie {
		w.class, w.words = reconfigure.ClassPlaybook, "start slurmd"
	}
	return w
}

// TestLostAnswer loses the cloud's answer after the cloud has made an instance: Terraform does not know the instance,
// which is adopted.
func TestLostAnswer(t *testing.T) {
	lab.Order(t, labcloud.Fault{Kind: labcloud.LostAnswer, Server: "w05", Call: "POST servers", Count: 1000})
	job := lab.Job(t, "--nodelist=w05", "--wrap=true")
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AssertAllIsWell(t)
}

// TestRefusedByTheFence makes Terraform plan a change that no request asks for: the test edits the declared key pair,
// which all nodes share.
func TestRefusedByTheFence(t *testing.T) {
	declared := lab.Declaration
	lab.Redeclare(t, func(d *cluster.Declaration) { d.KeyPair.PublicKey += "-of-somebody-else" })
	ways := []*way{{node: "w01", class: reconfigure.ClassRefused, words: "that nobody asked for", exit: 5}}
	failTogether(t, ways)
	if err := lab.Declare(declared); err != nil {
		t.Fatal(err)
	}
	assertJobsComeToRun(t, ways)
}

func struck(w *way) bool {
	for _, f := range lab.Cloud.Faults().List() {
		if f.Server == w.node && f.Hits > 0 {
			return true
		}
	}
	return false
}

// failTogether makes all nodes fail at once, and checks the reports: at once to Slurm, to the owner of the job, to the
// caller, in the status, and on the page, whose address it returns. Nodes that are made with them do not wait for them.
// No plan begins afterwards, since failTogether pauses starting.
func failTogether(t *testing.T, ways []*way, good ...string) (page string) {
	t.Helper()
	// Requests that were made during a pause are planned together after it.
	lab.Do(t, "pause", "--reason", "the test has everything asked for first")
	// if the test ends early
	t.Cleanup(func() { _ = lab.Reconfigure(context.Background(), "continue").Run() })
	for _, w := range ways {
		w.job = lab.Job(t, "--nodelist="+w.node, "--wrap=true")
	}
	var jobs []string
	asked := slices.Clone(ways)
	for _, node := range good {
		jobs = append(jobs, lab.Job(t, "--nodelist="+node, "--wrap=true"))
		asked = append(asked, &way{node: node})
	}
	awaitRequests(t, asked, 1)
	for _, w := range ways {
		w.told = &bytes.Buffer{}
		w.caller = lab.Reconfigure(t.Context(), "--json", "resume", w.node)
		w.caller.Stdout = w.told
		if err := w.caller.Start(); err != nil {
			t.Fatal(err)
		}
	}
	awaitRequests(t, ways, 2)
	lab.Do(t, "continue")
	looking := false
	lab.Eventually(t, failurePatience, func() (bool, string) {
		nodes, err := lab.Nodes()
		if err != nil {
			return false, err.Error()
		}
		var unseen []string
		for _, w := range ways {
			is := nodes[w.node]
			w.seen = w.seen || w.shows(is)
			if !w.seen {
				unseen = append(unseen, fmt.Sprintf("%s is %s, %q", w.node, is.State, is.Reason))
			} else if !looking {
				lab.Do(t, "pause", "--reason", "the test looks at what has failed")
				looking = true
			}
		}
		return len(unseen) == 0, "not told as " + fmt.Sprint(unseen)
	})
	for _, id := range jobs {
		lab.AwaitJob(t, id, "COMPLETED")
	}
	lab.AssertNeverRestarted(t, jobs...)
	for _, w := range ways {
		w.assertCallerIsTold(t)
	}
	status := lab.Do(t, "status", "-o", "wide")
	for _, w := range ways {
		if !regexp.MustCompile(`(?m)^` + w.node + ` .*` + regexp.QuoteMeta(string(w.class)+": ")).MatchString(status) {
			t.Errorf("the status does not say %s of %s:\n%s", w.class, w.node, status)
		}
	}
	page = lab.Serve(t)
	overview := harness.PageText(t, page+"/")
	for _, w := range ways {
		w.assertOwnerIsTold(t)
		w.assertExplained(t, "explain", strings.Join(strings.Fields(lab.Do(t, "explain", w.node)), " "))
		w.assertExplained(t, "the page", harness.PageText(t, page+"/node/"+w.node))
		w.assertNeedsAPerson(t, overview)
	}
	return page
}

// assertJobsComeToRun ends the pause. The nodes recover without an administrator.
func assertJobsComeToRun(t *testing.T, ways []*way) {
	t.Helper()
	lab.Do(t, "continue")
	for _, w := range ways {
		lab.Hurry(t, w.job)
	}
	for _, w := range ways {
		lab.Eventually(t, failurePatience, func() (bool, string) {
			state, err := lab.JobState(w.job)
			return state == "COMPLETED", fmt.Sprintf("job %s for %s is %s (%v)", w.job, w.node, state, err)
		})
		if restarts, err := lab.JobField(w.job, "Restarts"); restarts == "0" {
			t.Errorf("the job for %s was not requeued (%v)", w.node, err)
		}
	}
	lab.AssertAllIsWell(t)
}

// awaitRequests waits until each node has this number of requests.
func awaitRequests(t *testing.T, ways []*way, want int) {
	t.Helper()
	log := lab.Journal(t)
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		pending, err := log.Pending(t.Context())
		for _, w := range ways {
			n := 0
			for _, r := range pending {
				if r.Nodes.Contains(w.node) {
					n++
				}
			}
			if n < want {
				return false, fmt.Sprintf("%d requests name %s: %+v (%v)", n, w.node, pending, err)
			}
		}
		return true, ""
	})
}

// shows reports whether a node is unusable in Slurm, with the given reason.
func (w *way) shows(is cluster.Node) bool {
	return strings.Contains(is.State, "DOWN") && !strings.Contains(is.State, "POWERED_DOWN") &&
		strings.HasPrefix(is.Reason, "reconfigure: "+string(w.class)+": ")
}

// assertExplained checks that a first look at the node says why it failed, and which command shows more.
func (w *way) assertExplained(t *testing.T, where, said string) {
	t.Helper()
	wanted := []string{string(w.class), w.words}
	if w.class.Boots() {
		wanted = append(wanted, "reconfigure evidence --all "+w.node)
	}
	for _, words := range wanted {
		if !strings.Contains(said, words) {
			t.Errorf("%s does not say %q of %s:\n%s", where, words, w.node, said)
		}
	}
}

// needed is a failure on the page's overview: its class, its nodes, and the command to type.
var needed = regexp.MustCompile(`\w+ failed \(([\w-]+)\) (\S+) .*?reconfigure explain (\S+)`)

// assertNeedsAPerson checks that the overview names the node with the class of its failure.
func (w *way) assertNeedsAPerson(t *testing.T, overview string) {
	t.Helper()
	for _, found := range needed.FindAllStringSubmatch(overview, -1) {
		nodes, err := nodeset.Parse(found[2])
		if err == nil && found[1] == string(w.class) && nodes.Contains(w.node) && nodes.Contains(found[3]) {
			return
		}
	}
	t.Errorf("the overview does not say that %s failed with %s:\n%s", w.node, w.class, overview)
}

// findInABrowser finds out why nodes have failed as a person does: the overview names them, and their own pages say
// why.
func findInABrowser(t *testing.T, page string, nodes ...string) {
	t.Helper()
	b := browser.Open(t)
	b.Run(chromedp.Navigate(page+"/"), chromedp.WaitVisible(".need"))
	t.Logf("the overview shows\n%s", browser.Get(b, chromedp.Text("main")))
	for _, node := range nodes {
		b.Run(chromedp.SetValue(`.find [name="q"]`, node), chromedp.Click(".find button"))
		b.Wait(fmt.Sprintf(`document.querySelector("h1").textContent === "Node %s"`, node))
		b.Run(chromedp.WaitVisible(".steps .failed"), chromedp.WaitVisible(".advice code"))
		t.Logf("reconfigure explain %s\n%s\nits page shows\n%s", node, lab.Do(t, "explain", node),
			browser.Get(b, chromedp.Text("main")))
	}
}

func (w *way) assertCallerIsTold(t *testing.T) {
	t.Helper()
	err := w.caller.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if code := w.caller.ProcessState.ExitCode(); code != w.exit {
		t.Errorf("the caller for %s gets exit code %d, not %d", w.node, code, w.exit)
	}
	var outcome reconfigure.Outcome
	if err := json.Unmarshal(w.told.Bytes(), &outcome); err != nil || len(outcome.Verdicts) != 1 {
		t.Fatalf("who asked for %s is told %s (%v)", w.node, w.told, err)
	}
	if v := outcome.Verdicts[0]; v.Node != w.node || v.Class != w.class || !strings.Contains(v.Reason, w.words) {
		t.Errorf("the caller for %s gets %+v, not %s with %q", w.node, v, w.class, w.words)
	}
}

// assertOwnerIsTold checks the comment of a requeued job.
func (w *way) assertOwnerIsTold(t *testing.T) {
	t.Helper()
	shown := lab.OnControl(t, "scontrol", "show", "job", w.job)
	_, comment, _ := strings.Cut(shown, "AdminComment=")
	comment, _, _ = strings.Cut(comment, "\n")
	if !strings.HasPrefix(comment, "reconfigure: ") || !strings.Contains(comment, w.class.ForOwner()) ||
		!strings.Contains(comment, "("+string(w.class)+")") {
		t.Errorf("the owner of the job for %s is told %q", w.node, comment)
	}
	lab.Eventually(t, time.Minute, func() (bool, string) {
		restarts, err := lab.JobField(w.job, "Restarts")
		return restarts != "" && restarts != "0",
			fmt.Sprintf("the job for %s was restarted %q times (%v)", w.node, restarts, err)
	})
}
