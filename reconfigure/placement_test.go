package reconfigure

import (
	"encoding/json"
	"testing"
)

func TestHintsAreEqualWhateverTheirOrder(t *testing.T) {
	var one, two Spec
	for text, into := range map[string]*Spec{
		`{"group":"g","network_id":"n","scheduler_hints":{"b":"2", "a":"1"}}`: &one,
		`{"group":"g","network_id":"n","scheduler_hints":{"a":"1","b":"2"}}`:  &two,
	} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if one != two || one.Hints != MakeTexts(map[string]string{"a": "1", "b": "2"}) {
		t.Errorf("%+v and %+v", one, two)
	}
	text, err := json.Marshal(one)
	if want := `{"group":"g","network_id":"n","scheduler_hints":{"a":"1","b":"2"}}`; err != nil || string(text) != want {
		t.Errorf("%s, error %v", text, err)
	}
	text, err = json.Marshal(Spec{Group: "g", NetworkID: "n", Placement: Placement{Hints: MakeTexts(nil)}})
	if want := `{"group":"g","network_id":"n"}`; err != nil || string(text) != want {
		t.Errorf("without hints: %s, error %v", text, err)
	}
	if err := json.Unmarshal([]byte(`{"scheduler_hints":["a"]}`), &one); err == nil {
		t.Error("a list is no error")
	}
}

func TestPlacementAdmits(t *testing.T) {
	here, hinted := Placement{Zone: "a", ServerGroup: "g"}, Placement{Hints: MakeTexts(map[string]string{"x": "y"})}
	for name, tc := range map[string]struct {
		wanted, is Placement
		want       bool
	}{
		"left to the cloud":    {Placement{}, here, true},
		"as wanted":            {here, here, true},
		"only the zone counts": {Placement{Zone: "a"}, here, true},
		"another zone":         {Placement{Zone: "b"}, here, false},
		"an unknown zone":      {here, Placement{ServerGroup: "g"}, false},
		"another group":        {Placement{ServerGroup: "h"}, here, false},
		"without the hints":    {hinted, here, false},
		"with the hints":       {hinted, hinted, true},
	} {
		if got := tc.wanted.Admits(tc.is); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
