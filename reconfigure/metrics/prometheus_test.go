package metrics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/await"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/metrics"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// boots records a request for two nodes and its operations.
func boots(t *testing.T, j *memory.Journal) {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	r, err := j.Submit(ctx, reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("p2", "p3")})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := j.Begin(ctx, []reconfigure.RequestID{r.ID})
	if err != nil {
		t.Fatal(err)
	}
	var events []reconfigure.Event
	add := func(node string, phase reconfigure.Phase, level reconfigure.Level, message string) {
		events = append(events, reconfigure.Event{
			Time: now, Plan: plan, Node: node, Phase: phase, Level: level, Message: message,
		})
	}
	add("", reconfigure.PhaseApply, reconfigure.Note, "Terraform: create p[2-3]")
	for _, node := range []string{"p2", "p3"} {
		add(node, reconfigure.PhaseApply, reconfigure.Begun, "")
		add(node, reconfigure.PhaseApply, reconfigure.Done, "")
		events = append(events, reconfigure.Event{Node: node, Plan: plan, Life: &reconfigure.Life{
			Node: node, Instance: "i" + node, Plan: plan, Group: "group", Planned: now, Made: now, Registered: now,
		}})
	}
	if err := j.Record(ctx, events...); err != nil {
		t.Fatal(err)
	}
	err = j.Finish(ctx, reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone, Verdicts: []reconfigure.Verdict{
		{Node: "p2", Action: reconfigure.Create, Status: reconfigure.StatusDone},
		{Node: "p3", Action: reconfigure.Create, Status: reconfigure.StatusDone},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// startPrometheus starts Debian's Prometheus on a free port of the loopback address, and returns its URL.
func startPrometheus(t *testing.T, target string) string {
	t.Helper()
	path, dir := program(t, "prometheus"), t.TempDir()
	rules, err := filepath.Abs(filepath.Join("..", "..", "monitoring", "rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\n"+
		"scrape_configs: [{job_name: eiffel, static_configs: [{targets: ['%s']}]}]\n", rules, target)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	var out bytes.Buffer
	cmd := exec.Command(path, "--config.file="+dir+"/prometheus.yml", "--storage.tsdb.path="+dir+"/data",
		"--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	return "http://" + address
}

// ask returns the data of Prometheus' answer; ok is false if it does not answer.
func ask(ctx context.Context, at string, into any) (ok bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return false, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode == http.StatusServiceUnavailable {
		return false, nil
	}
	got := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.Unmarshal(text, &got); err != nil {
		return false, err
	}
	if got.Status != "success" {
		return false, fmt.Errorf("%s: %s", at, got.Error)
	}
	return true, nil
}

// queries returns the queries of the dashboard.
func queries(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "monitoring", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

// TestADashboardOnARealPrometheus runs each query of the dashboard, and has Prometheus evaluate the rules.
func TestADashboardOnARealPrometheus(t *testing.T) {
	cluster := reconfigure.Cluster{Groups: []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Max: 9}}}
	j := memory.New()
	look := reconcile.Look{Time: time.Now(), Nodes: []reconcile.Count{
		{Group: "group", Source: snapshot.Slurm, State: "powered_down", Nodes: 9},
		{Group: "group", Source: snapshot.Cloud, State: "active"},
	}}
	collector := metrics.NewCollector(metrics.Facts{
		Journal: j, Cluster: func() reconfigure.Cluster { return cluster },
		Look: func() (reconcile.Look, error) { return look, nil },
		Size: func(context.Context) (int64, error) { return 1, nil }, Lost: func() int64 { return 0 },
	})
	boots(t, j)
	server := httptest.NewServer(metrics.Handler(collector))
	defer server.Close()
	base := startPrometheus(t, strings.TrimPrefix(server.URL, "http://"))
	// until asks until Prometheus has what is wanted.
	until := func(what string, has func() (bool, error)) {
		t.Helper()
		var err error
		ends := func() bool {
			var ok bool
			ok, err = has()
			return ok || err != nil
		}
		if !await.Until(t.Context(), 2*time.Minute, ends) {
			t.Fatal("not within two minutes: " + what)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	has := func(query string) func() (bool, error) {
		return func() (bool, error) {
			var data struct{ Result []any }
			ok, err := ask(t.Context(), base+"/api/v1/query?query="+url.QueryEscape(query), &data)
			return ok && len(data.Result) > 0, err
		}
	}
	until("the first samples", has("reconfigure_journal_up"))
	boots(t, j) // so that counters and histograms grow between samples
	until("the second request", has(`reconfigure_requests_total{mode="resume",outcome="done"} == 2`))
	for _, query := range queries(t) {
		until(query, has(query))
	}
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	until("the rules", func() (bool, error) {
		ok, err := ask(t.Context(), base+"/api/v1/rules", &data)
		for _, g := range data.Groups {
			for _, r := range g.Rules {
				ok = ok && r.Health == "ok"
				if r.Health == "err" {
					return false, fmt.Errorf("%s: %s", r.Name, r.LastError)
				}
			}
		}
		return ok && len(data.Groups) > 0, err
	})
}

// TestQueriesNameMetricsThatExist reads the dashboard and the rules.
func TestQueriesNameMetricsThatExist(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join("..", "..", "monitoring", "rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	all := append(queries(t), string(rules))
	for _, name := range regexp.MustCompile(`\breconfigure_\w+`).FindAllString(strings.Join(all, "\n"), -1) {
		if strings.Contains(string(rules), ":"+name+":") {
			continue // the record is checked by its own expression
		}
		if !slices.ContainsFunc(metrics.Table(), func(m metrics.Metric) bool {
			suffix, ok := strings.CutPrefix(name, m.Name)
			return ok && (suffix == "" || m.Type == "histogram" && slices.Contains(
				[]string{"_bucket", "_sum", "_count"}, suffix))
		}) {
			t.Errorf("%s is no metric", name)
		}
	}
}
