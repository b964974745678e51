package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResultsAreOfScenarios(t *testing.T) {
	var out bytes.Buffer
	results, err := read(strings.NewReader(`{"Action":"start","Package":"x/clouds"}
{"Action":"attr","Package":"x/clouds","Test":"TestA","Key":"scenario","Value":"a job, with words"}
{"Action":"attr","Package":"x/clouds","Test":"TestA","Key":"measured","Value":"1 s"}
{"Action":"run","Package":"x/clouds","Test":"TestA/sub"}
{"Action":"attr","Package":"x/clouds","Test":"TestA/sub","Key":"other","Value":"x"}
{"Action":"output","Package":"x/clouds","Test":"TestA/sub","Output":"too late\n"}
{"Action":"fail","Package":"x/clouds","Test":"TestA/sub"}
{"Action":"fail","Package":"x/clouds","Test":"TestA"}
{"Action":"attr","Package":"x/clouds","Test":"TestB","Key":"scenario","Value":"b"}
{"Action":"attr","Package":"x/clouds","Test":"TestB","Key":"measured","Value":"2 s; Terraform 3 s"}
{"Action":"output","Package":"x/clouds","Test":"TestB","Output":"not said\n"}
{"Action":"pass","Package":"x/clouds","Test":"TestB"}
{"Action":"attr","Package":"x/clouds","Test":"TestD","Key":"scenario","Value":"d"}
{"Action":"output","Package":"x/clouds","Test":"TestD","Output":"it hangs\n"}
{"Action":"fail","Package":"x/clouds"}
{"Action":"start","Package":"x/grow"}
{"Action":"run","Package":"x/grow","Test":"TestABadNodeDelaysNoOther"}
{"Action":"pass","Package":"x/grow","Test":"TestABadNodeDelaysNoOther"}
{"Action":"run","Package":"x/grow","Test":"TestEvery"}
{"Action":"run","Package":"x/grow","Test":"TestEvery/no_host"}
{"Action":"skip","Package":"x/grow","Test":"TestEvery/no_host"}
{"Action":"run","Package":"x/grow","Test":"TestEvery/quota"}
{"Action":"fail","Package":"x/grow","Test":"TestEvery/quota"}
{"Action":"fail","Package":"x/grow","Test":"TestEvery"}
{"Action":"fail","Package":"x/grow"}
{"Action":"run","Package":"x/last","Test":"TestWell"}
{"Action":"run","Package":"x/last","Test":"TestWell/part"}
{"Action":"pass","Package":"x/last","Test":"TestWell/part"}
{"Action":"fail","Package":"x/last","Test":"TestWell"}
{"Action":"fail","Package":"x/last"}
{"ImportPath":"x/broken","Action":"build-output","Output":"no such name\n"}
{"Action":"fail","Package":"x/broken","FailedBuild":"x/broken"}
{"Action":"pass","Package":"x/empty"}
`), &out)
	want := []result{{"a job, with words", "failed"}, {"b", "passed: 2 s; Terraform 3 s"}, {"d", "did not end"},
		{"grow: a bad node delays no other", "passed"}, {"grow: every: no host", "skipped"},
		{"grow: every: quota", "failed"}, {"last: well", "failed"}, {"last: well: part", "passed"},
		{"broken: before or after its tests", "failed"}}
	if diff := cmp.Diff(want, results, cmp.AllowUnexported(result{})); diff != "" || err != nil {
		t.Errorf("error %v, results (-want +got):\n%s", err, diff)
	}
	for words, said := range map[string]bool{"too late\n": true, "not said\n": false, "it hangs\n": true,
		"no such name\n": true, "passed: b\n": true, "failed: grow: every: quota\n": true} {
		if strings.Contains(out.String(), words) != said {
			t.Errorf("it says %q: %v, want %v:\n%s", words, !said, said, &out)
		}
	}
}

func TestRowsTakeThePlaceOfFormerOnes(t *testing.T) {
	page := replace(nil, "a", []row{{"a", "1", "x", "d1", "passed"}}, true)
	page = replace(page, "b", []row{{"b", "1", "x", "d1", "passed"}, {"b", "1", "y", "d1", "failed"}}, true)
	page = replace(page, "c", []row{{"c", "1", "x", "d1", "passed"}}, false)
	before := slices.Clone(page)
	for _, tc := range []struct {
		whole bool
		want  string
	}{
		{true, "| b | 2 | y | d2 | passed |\n| b | 2 | z | d2 | passed |\n"},
		{false, "| b | 1 | x | d1 | passed |\n| b | 2 | y | d2 | passed |\n| b | 2 | z | d2 | passed |\n"},
	} {
		page := replace(before, "b", []row{{"b", "2", "y", "d2", "passed"}, {"b", "2", "z", "d2", "passed"}}, tc.whole)
		want := head + "| a | 1 | x | d1 | passed |\n" + tc.want + "| c | 1 | x | d1 | passed |\n"
		if diff := cmp.Diff(want, string(page)); diff != "" {
			t.Errorf("whole %v (-want +got):\n%s", tc.whole, diff)
		}
	}
}

func TestSuitesAndPackagesAreChosen(t *testing.T) {
	all := []suite{{name: "grow", packages: []string{"./e/clouds"}},
		{name: "old", packages: []string{"./e/grow", "./e/x"}}, {name: "new", packages: []string{"./e/grow", "./e/y"}}}
	for words, want := range map[string]string{
		"":         "grow ./e/clouds; old ./e/grow ./e/x; new ./e/grow ./e/y",
		"new old":  "old ./e/grow ./e/x; new ./e/grow ./e/y",
		"new y":    "new ./e/y, partial",
		"x":        "old ./e/x, partial",
		"clouds":   "grow ./e/clouds",
		"new x":    `error "x" is no package of new, and no suite: these are `,
		"new what": `error "what" is no package of new, and no suite: these are `,
	} {
		var got []string
		chosen, err := choose(slices.Clone(all), strings.Fields(words))
		for _, s := range chosen {
			got = append(got, strings.Join(append([]string{s.name}, s.packages...), " "))
			if s.partial {
				got[len(got)-1] += ", partial"
			}
		}
		if err != nil {
			got = []string{"error " + strings.TrimSuffix(err.Error(), names(suites()))}
		}
		if is := strings.Join(got, "; "); is != want {
			t.Errorf("%q chooses %s, want %s", words, is, want)
		}
	}
}
