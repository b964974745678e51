package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOutcomesAndVersionsAreRead(t *testing.T) {
	const events = `{"Action":"start","Package":"x/e2e/one"}
{"Action":"run","Package":"x/e2e/one","Test":"TestAll"}
{"Action":"attr","Package":"x/e2e/one","Test":"TestAll","Key":"Slurm","Value":"slurm-wlm 24.11.5"}
{"Action":"run","Package":"x/e2e/one","Test":"TestAll/a_job"}
{"Action":"output","Package":"x/e2e/one","Test":"TestAll/a_job","Output":"not said\n"}
{"Action":"pass","Package":"x/e2e/one","Test":"TestAll/a_job","Elapsed":1.6}
{"Action":"run","Package":"x/e2e/one","Test":"TestAll/a_reboot"}
{"Action":"output","Package":"x/e2e/one","Test":"TestAll/a_reboot","Output":"too late\n"}
{"Action":"fail","Package":"x/e2e/one","Test":"TestAll/a_reboot","Elapsed":60}
{"Action":"fail","Package":"x/e2e/one","Test":"TestAll","Elapsed":62}
{"Action":"run","Package":"x/e2e/two","Test":"TestOther"}
{"Action":"skip","Package":"x/e2e/two","Test":"TestOther","Elapsed":0}
{"Action":"pass","Package":"x/e2e/two","Elapsed":3}
`
	var progress bytes.Buffer
	got, err := read(strings.NewReader(events), &progress)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"one: TestAll/a_job", "pass", "2"}, {"one: TestAll/a_reboot", "fail", "60"},
		{"one: TestAll", "fail", "62"}, {"two: TestOther", "skip", "0"}}
	if diff := cmp.Diff(want, got.rows); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]string{{"Slurm", "slurm-wlm 24.11.5"}}, got.versions); diff != "" {
		t.Error(diff)
	}
	if said := progress.String(); !strings.Contains(said, "too late\n") || strings.Contains(said, "not said") {
		t.Errorf("it prints\n%s", said)
	}
}
