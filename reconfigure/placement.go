package reconfigure

import "encoding/json"

// Placement says where the cloud's scheduler puts an instance. Only the creation of an instance uses it. What is empty
// is left to the cloud.
type Placement struct {
	Zone string `json:"availability_zone,omitempty"`
	// ServerGroup is the name or the id of a server group in a Source, and its id elsewhere.
	ServerGroup string `json:"server_group,omitempty"`
	Hints       Hints  `json:"scheduler_hints,omitempty"`
}

// Admits reports whether an instance that was placed by the other value is where p wants it. What p leaves to the
// cloud admits everything.
func (p Placement) Admits(other Placement) bool {
	admits := func(wanted, is string) bool { return wanted == "" || wanted == is }
	return admits(p.Zone, other.Zone) && admits(p.ServerGroup, other.ServerGroup) &&
		admits(string(p.Hints), string(other.Hints))
}

// Hints has further hints for the cloud's scheduler, by name, as a JSON object with sorted keys, so that values can be
// compared; empty: none. Its own JSON is that object.
type Hints string

// MakeHints returns the hints of a map.
func MakeHints(hints map[string]string) Hints {
	if len(hints) == 0 {
		return ""
	}
	text, err := json.Marshal(hints)
	if err != nil {
		panic(err) // a map of strings always has a JSON form
	}
	return Hints(text)
}

// MarshalJSON implements json.Marshaler.
func (h Hints) MarshalJSON() ([]byte, error) {
	if h == "" {
		return []byte("{}"), nil
	}
	return []byte(h), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Hints) UnmarshalJSON(text []byte) error {
	var hints map[string]string
	if err := json.Unmarshal(text, &hints); err != nil {
		return err
	}
	*h = MakeHints(hints)
	return nil
}
