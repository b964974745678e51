package reconfigure

import (
	"encoding/json"
	"slices"
	"strings"
)

// Placement is what only the creation of an instance uses: where the cloud's scheduler puts it, and the metadata that
// its first boot may read. What is empty is left to the cloud.
type Placement struct {
	Zone string `json:"availability_zone,omitempty"`
	// ServerGroup is the name or the id of a server group in a Source, and its id elsewhere.
	ServerGroup string `json:"server_group,omitempty"`
	Hints       Texts  `json:"scheduler_hints,omitempty"` // further hints for the scheduler
	Metadata    Texts  `json:"metadata,omitempty"`        // in addition to that of reconfigure
}

// Admits reports whether an instance that was placed by the other value is where p wants it. What p leaves to the
// cloud admits everything.
func (p Placement) Admits(other Placement) bool {
	admits := func(wanted, is string) bool { return wanted == "" || wanted == is }
	return admits(p.Zone, other.Zone) && admits(p.ServerGroup, other.ServerGroup) &&
		admits(string(p.Hints), string(other.Hints)) && admits(string(p.Metadata), string(other.Metadata))
}

// MetadataPrefix begins the names of the metadata that reconfigure itself gives to instances.
const MetadataPrefix = "eiffel_"

// Texts has texts by name, as a JSON object with sorted keys, so that values can be compared; empty: none. Its own JSON
// is that object.
type Texts string

// MakeTexts returns the texts of a map.
func MakeTexts(texts map[string]string) Texts {
	if len(texts) == 0 {
		return ""
	}
	text, err := json.Marshal(texts)
	if err != nil {
		panic(err) // a map of strings always has a JSON form
	}
	return Texts(text)
}

// MarshalJSON implements json.Marshaler.
func (t Texts) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("{}"), nil
	}
	return []byte(t), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Texts) UnmarshalJSON(text []byte) error {
	var texts map[string]string
	if err := json.Unmarshal(text, &texts); err != nil {
		return err
	}
	*t = MakeTexts(texts)
	return nil
}

// List has words without commas, sorted and separated by commas, so that values can be compared; empty: none. Its own
// JSON is a list.
type List string

// MakeList returns the list of some words, each once.
func MakeList(words []string) List {
	words = slices.Clone(words)
	slices.Sort(words)
	return List(strings.Join(slices.Compact(words), ","))
}

// Words returns the words of the list, sorted.
func (l List) Words() []string {
	if l == "" {
		return []string{}
	}
	return strings.Split(string(l), ",")
}

// MarshalJSON implements json.Marshaler.
func (l List) MarshalJSON() ([]byte, error) { return json.Marshal(l.Words()) }

// UnmarshalJSON implements json.Unmarshaler.
func (l *List) UnmarshalJSON(text []byte) error {
	var words []string
	if err := json.Unmarshal(text, &words); err != nil {
		return err
	}
	*l = MakeList(words)
	return nil
}
