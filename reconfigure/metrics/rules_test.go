package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/metrics"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// program returns a program of Debian's package prometheus, which `make tools` installs.
func program(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs " + name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal("run `make tools`: ", err)
	}
	return path
}

// step is the interval of the samples and of the evaluation of rules.
const step = 5 * time.Minute

// film has the samples of a scene, by series. An underscore stands for a missing sample.
type film struct {
	samples map[string][]string
	length  int
	began   time.Time
}

// take adds a sample. Prometheus' tests begin in 1970.
func (f *film) take(values map[string]float64) {
	for name, v := range values {
		if strings.HasSuffix(name, "_timestamp_seconds") && v > 0 {
			v -= float64(f.began.Unix())
		}
		row := f.samples[name]
		for len(row) < f.length {
			row = append(row, "_")
		}
		f.samples[name] = append(row, number(v))
	}
	f.length++
}

// input is the scene as a test of promtool, which expects that exactly these alerts fire.
func (f *film) input(b *strings.Builder, alerts ...string) {
	fmt.Fprintf(b, "- interval: %s\n  input_series:\n", step)
	for _, name := range slices.Sorted(maps.Keys(f.samples)) {
		fmt.Fprintf(b, "  - series: '%s'\n    values: '%s'\n", name, strings.Join(f.samples[name], " "))
	}
	fmt.Fprintf(b, "  promql_expr_test:\n  - expr: 'count by (alertname) "+
		"(count by (alertname) (count_over_time(ALERTS{alertstate=\"firing\"}[30d])))'\n    eval_time: %s\n    exp_samples:",
		time.Duration(f.length)*step)
	if len(alerts) == 0 {
		b.WriteString(" []\n")
		return
	}
	b.WriteString("\n")
	for _, name := range alerts {
		fmt.Fprintf(b, "    - {labels: '{alertname=\"%s\"}', value: 1}\n", name)
	}
}

// runs takes a sample at each step while a scene is played.
func (f *film) runs(s *scene, do func()) {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-time.After(step):
			case <-ctx.Done():
				return
			}
			f.take(s.now())
		}
	}()
	do()
	cancel()
	<-ended
}

// unread is a journal that cannot be read.
type unread struct{ metrics.Journal }

func (unread) Pending(context.Context) ([]reconfigure.Request, error) {
	return nil, errors.New("the disk is full")
}

// scenes has what happens, and which alerts fire. In each the cluster was well before.
var scenes = map[string]struct {
	alerts []string
	happen func(s *scene, f *film)
}{
	"a healthy week": {nil, func(s *scene, _ *film) {
		for range 7 {
			s.job(2*time.Hour, "p2", "p3", "p4")
			s.job(10*time.Minute, "p5")
			s.job(6*time.Hour, "p2", "p6", "p7", "p8", "p9")
			pass(24*time.Hour - time.Since(midnight()))
		}
	}},
	"new instances never answer": {[]string{"ReconfigureBreakerOpen", "ReconfigureNodesFail"}, func(s *scene, _ *film) {
		s.Order(simulate.NoSSH, "p2", "p3", "p4", "p5")
		s.job(30*time.Minute, "p2", "p3", "p4", "p5")
	}},
	"the cloud has no room": {[]string{"ReconfigureNoRoom"}, func(s *scene, _ *film) {
		s.Order(simulate.NoValidHost, "p2")
		s.job(30*time.Minute, "p2")
	}},
	"the cloud does not answer": {[]string{"ReconfigureSourceSilent"}, func(s *scene, _ *film) {
		s.Order(simulate.CloudSilent)
		pass(time.Hour)
	}},
	"Slurm does not answer": {[]string{"ReconfigureSourceSilent"}, func(s *scene, _ *film) {
		s.Order(simulate.SlurmSilent)
		pass(time.Hour)
	}},
	"the cloud loses an instance": {
		[]string{"ReconfigureFinding", "ReconfigureSourcesDiffer"}, func(s *scene, _ *film) {
			s.Vanish("p1")
			pass(2 * time.Hour)
		}},
	"a pause is forgotten": {[]string{"ReconfigurePaused", "ReconfigureRequestStuck"}, func(s *scene, _ *film) {
		if err := s.journal.Pause(s.Context(), "maintenance", "admin"); err != nil {
			s.Error(err)
		}
		s.ask(reconfigure.Resume, "p2")
		pass(5 * time.Hour)
	}},
	"the journal cannot be read": {[]string{"ReconfigureJournalFails"}, func(s *scene, _ *film) {
		s.from(unread{s.journal})
		pass(30 * time.Minute)
	}},
	"events are lost": {[]string{"ReconfigureEventsLost"}, func(s *scene, _ *film) {
		s.lost.Store(3)
		pass(30 * time.Minute)
	}},
	"the notify command fails": {[]string{"ReconfigureNotifyFails"}, func(s *scene, _ *film) {
		s.deaf.Store(true)
		pass(30 * time.Minute)
	}},
	"a campaign is paused": {[]string{"ReconfigureCampaignPaused"}, func(s *scene, _ *film) {
		if _, err := s.journal.StartCampaign(s.Context(), paused()); err != nil {
			s.Error(err)
		}
		pass(time.Hour)
	}},
	"no worker takes the requests": {[]string{"ReconfigureNoWorker"}, func(s *scene, _ *film) {
		s.stop()
		s.ask(reconfigure.Resume, "p2")
		pass(30 * time.Minute)
	}},
	"the comparisons end": {[]string{"ReconfigureNotCompared"}, func(s *scene, _ *film) {
		s.lock.Lock()
		s.frozen = true
		s.lock.Unlock()
		pass(3 * time.Hour)
	}},
	"nothing answers": {[]string{"ReconfigureAbsent"}, func(_ *scene, f *film) {
		f.length += 12
	}},
}

// TestEachAlertFiresOnItsSceneOnly plays the scenes on the simulated cluster, and gives the values to promtool.
func TestEachAlertFiresOnItsSceneOnly(t *testing.T) {
	promtool := program(t, "promtool")
	rules, err := filepath.Abs(filepath.Join("..", "..", "monitoring", "rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	fired := map[string]bool{}
	for name, sc := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &film{samples: map[string][]string{}}
			play(t, func(s *scene) {
				f.began = time.Now()
				pass(10 * time.Minute)
				f.runs(s, func() {
					pass(time.Hour)
					sc.happen(s, f)
				})
			})
			b := &strings.Builder{}
			fmt.Fprintf(b, "rule_files: [%s]\nevaluation_interval: %s\ntests:\n", rules, step)
			f.input(b, sc.alerts...)
			file := filepath.Join(t.TempDir(), "test.yml")
			if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		for _, alert := range sc.alerts {
			fired[alert] = true
		}
	}
	for line := range strings.Lines(string(text)) {
		if alert, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); ok && !fired[alert] {
			t.Errorf("no scene makes %s fire", alert)
		}
	}
}
