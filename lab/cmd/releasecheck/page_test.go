package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResultsAreOfTestsWithAScenario(t *testing.T) {
	results, err := read(strings.NewReader(`{"Action":"start","Package":"p"}
{"Action":"attr","Package":"p","Test":"TestA","Key":"scenario","Value":"a"}
{"Action":"attr","Package":"p","Test":"TestA/sub","Key":"other","Value":"x"}
{"Action":"fail","Package":"p","Test":"TestA/sub"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"attr","Package":"p","Test":"TestB","Key":"scenario","Value":"b"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Test":"TestC"}
{"Action":"attr","Package":"p","Test":"TestD","Key":"scenario","Value":"d"}
`), io.Discard)
	want := []result{{"a", "failed"}, {"b", "passed"}, {"d", "did not end"}}
	if diff := cmp.Diff(want, results, cmp.AllowUnexported(result{})); diff != "" || err != nil {
		t.Errorf("error %v, results (-want +got):\n%s", err, diff)
	}
}

func TestRowsTakeThePlaceOfFormerOnes(t *testing.T) {
	page := replace(nil, []row{{"a", "1", "x", "d1", "passed"}})
	page = replace(page, []row{{"b", "1", "x", "d1", "passed"}, {"b", "1", "y", "d1", "failed"}})
	page = replace(page, []row{{"c", "1", "x", "d1", "passed"}})
	page = replace(page, []row{{"b", "2", "x", "d2", "passed"}})
	want := head + `| a | 1 | x | d1 | passed |
| b | 2 | x | d2 | passed |
| c | 1 | x | d1 | passed |
`
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
