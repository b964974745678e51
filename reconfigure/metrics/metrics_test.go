package metrics_test

import (
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/metrics"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

var update = flag.Bool("update", false, "write the page of the metrics")

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func TestThePageHasTheMetrics(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "reference", "metrics.md")
	if *update {
		if err := os.WriteFile(page, []byte(metrics.Page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(was), metrics.Page()); diff != "" {
		t.Errorf("run `make golden`: %s", diff)
	}
}

func TestLabelsHaveFewValues(t *testing.T) {
	allowed := strings.Fields("group mode action phase class outcome kind source state use")
	for _, m := range metrics.Table() {
		for _, label := range m.Labels {
			if !slices.Contains(allowed, label) {
				t.Errorf("%s has label %s", m.Name, label)
			}
		}
		if counts := m.Type == "counter"; counts != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s is a %s", m.Name, m.Type)
		}
	}
}

// want compares some values, and the sum of those that a series without labels stands for.
func (s *scene) want(want map[string]float64) {
	s.Helper()
	got := s.now()
	for name, v := range want {
		if is, there := got[name]; !there || is != v {
			s.Errorf("%s is %v (%t), want %v", name, is, there, v)
		}
	}
	if s.Failed() {
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if got[name] != 0 && !strings.Contains(name, "_bucket") {
				s.Logf("%s %v", name, got[name])
			}
		}
	}
}

// TestADayOfACluster compares the values with what was done, after a restart of the worker too.
func TestADayOfACluster(t *testing.T) {
	play(t, func(s *scene) {
		pass(time.Hour)
		s.job(time.Hour, "p2", "p3")
		s.Order(simulate.NoSSH, "p4")
		s.PowersUp("p4", "p5")
		s.ask("resume", "p4", "p5")
		s.ask("resume", "unknown")
		pass(30 * time.Minute)
		s.Clear(simulate.NoSSH) // the run that removed p4 after its failure has no result, so no duration
		s.job(time.Minute, "p4")
		pass(10 * time.Minute)
		want := map[string]float64{
			`reconfigure_requests_total{mode="resume",outcome="done"}`:                     2,
			`reconfigure_requests_total{mode="resume",outcome="partial"}`:                  1,
			`reconfigure_requests_total{mode="suspend",outcome="done"}`:                    2,
			`reconfigure_requests_total{mode="update",outcome="failed"}`:                   0,
			`reconfigure_operations_total{action="create",group="group",outcome="done"}`:   4,
			`reconfigure_operations_total{action="create",group="group",outcome="failed"}`: 1,
			`reconfigure_operations_total{action="destroy",group="group",outcome="done"}`:  3,
			`reconfigure_failures_total{class="no-ssh",group="group"}`:                     1,
			`reconfigure_failures_total{class="quota",group="group"}`:                      0,
			`reconfigure_group_boot_failures{group="group"}`:                               0,
			`reconfigure_requests_open{mode="resume"}`:                                     0,
			`reconfigure_operations_total{action="none",group="none",outcome="rejected"}`:  1,
			`reconfigure_lease_held`:                                                 1,
			`reconfigure_journal_up`:                                                 1,
			`reconfigure_journal_size_bytes`:                                         1048576,
			`reconfigure_source_up{source="cloud"}`:                                  1,
			`reconfigure_node_ready_seconds_count{group="group"}`:                    4,
			`reconfigure_phase_duration_seconds_count{group="group",phase="verify"}`: 4,
			`reconfigure_run_nodes_sum{phase="configure"}`:                           4,
			`reconfigure_run_nodes_count{phase="configure"}`:                         3,
			`reconfigure_run_duration_seconds_count{phase="configure"}`:              3,
			`reconfigure_run_nodes_count{phase="apply"}`:                             6,
			`reconfigure_run_duration_seconds_count{phase="apply"}`:                  5,
			`reconfigure_run_duration_seconds_sum{phase="apply"}`:                    5,
			`reconfigure_nodes{group="group",source="cloud",state="active"}`:         2,
			`reconfigure_nodes{group="group",source="terraform",state="active"}`:     2,
			`reconfigure_nodes{group="group",source="slurm",state="powered_down"}`:   7,
			`reconfigure_nodes{group="control",source="cloud",state="active"}`:       1,
		}
		s.want(want)
		before := s.now()
		s.collect()
		pass(0)
		if diff := cmp.Diff(onlyCounters(before), onlyCounters(s.now())); diff != "" {
			t.Errorf("a new worker counts differently: %s", diff)
		}
		pass(24*time.Hour - time.Since(midnight()))
		for name, v := range onlyCounters(s.now()) {
			if v != 0 {
				t.Errorf("at the next day %s is %v", name, v)
			}
		}
	})
}

func midnight() time.Time { return time.Now().UTC().Truncate(24 * time.Hour) }

func onlyCounters(values map[string]float64) map[string]float64 {
	kept := map[string]float64{}
	for name, v := range values {
		if strings.Contains(name, "_total") || strings.Contains(name, "_count") {
			kept[name] = v
		}
	}
	return kept
}

// TestTheTableIsExported plays a scene with every metric.
func TestTheTableIsExported(t *testing.T) {
	play(t, func(s *scene) {
		s.job(time.Minute, "p2")
		if _, err := s.journal.StartCampaign(s.Context(), paused()); err != nil {
			t.Fatal(err)
		}
		s.Vanish("p1")
		pass(10 * time.Minute)
		got := map[string]bool{}
		for name := range s.now() {
			name, _, _ = strings.Cut(name, "{")
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, suffix)
			}
			got[name] = true
		}
		for _, m := range metrics.Table() {
			if !got[m.Name] {
				t.Errorf("%s is not exported", m.Name)
			}
			delete(got, m.Name)
		}
		if len(got) > 0 {
			t.Errorf("not in the table: %v", got)
		}
	})
}

func TestAJournalThatFailsIsSeen(t *testing.T) {
	play(t, func(s *scene) {
		pass(10 * time.Minute)
		s.journal.Fail(errors.New("the disk is full"))
		got := s.now()
		if v, there := got["reconfigure_journal_up"]; !there || v != 0 {
			t.Errorf("journal_up is %v (%t)", v, there)
		}
		if _, there := got["reconfigure_paused"]; there {
			t.Error("there are values of a journal that fails")
		}
		if got[`reconfigure_source_up{source="slurm"}`] != 1 {
			t.Error("the last comparison is missing")
		}
		s.journal.Fail(nil)
		pass(10 * time.Second)
		s.want(map[string]float64{"reconfigure_journal_up": 1, "reconfigure_paused": 0})
	})
}
