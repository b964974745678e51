package status

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Upgrade is what this version of the program changes in a cluster directory that an earlier version has used.
type Upgrade struct {
	Schema Versions `json:"schema"` // of the journal; From is 0 if there is no journal
	// Copy is the file to which the next command copies the journal before it changes the schema.
	Copy        string `json:"copy,omitempty"`
	Worker      bool   `json:"worker"`      // a worker has the lease
	Declaration string `json:"declaration"` // the file, which has no problems
	Checkout    bool   `json:"checkout"`
	// Files are the program's files that differ from those in the binary. In a checkout nobody but the administrator
	// replaces them.
	Files     []string   `json:"files,omitempty"`
	Unpacks   bool       `json:"unpacks"` // the next request unpacks playbooks and scripts
	Providers []Provider `json:"providers,omitempty"`
	// Terraform has the changes of shared resources, and Refused those of nodes, which no request asks for.
	Terraform []reconfigure.ResourceChange `json:"terraform,omitempty"`
	Refused   []reconfigure.ResourceChange `json:"refused,omitempty"`
	Unseen    string                       `json:"unseen,omitempty"` // why Terraform could not plan
}

// Versions are two versions of a schema.
type Versions struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Provider is a provider of Terraform whose version changes.
type Provider struct {
	Name string `json:"name"`
	From string `json:"from"` // empty: it is new
	To   string `json:"to"`   // empty: it is no longer needed
}

// ChangedProviders returns the providers with different versions in the two maps.
func ChangedProviders(before, after map[string]string) (changed []Provider) {
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] != after[name] {
			changed = append(changed, Provider{Name: name, From: before[name], To: after[name]})
		}
	}
	return changed
}

// Write prints the changes for people.
func (u Upgrade) Write(w io.Writer) error {
	var b strings.Builder
	for _, part := range []struct{ name, text string }{
		{"journal", u.journal()}, {"declaration", u.Declaration + " is valid, and stays as it is"}, {"files", u.files()},
		{"provider", u.providers()}, {"instances", u.instances()},
	} {
		if part.text != "" {
			fmt.Fprintf(&b, "%-13s%s\n", part.name+":", part.text)
		}
	}
	resources(&b, "\nTerraform changes at the next deploy:\n", u.Terraform)
	resources(&b, "\nTerraform would change, although no request asks for it:\n", u.Refused)
	b.WriteString("\n" + u.next() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (u Upgrade) journal() string {
	switch {
	case u.Schema.From == 0:
		return "there is none yet"
	case u.Schema.From == u.Schema.To:
		return fmt.Sprintf("schema %d, no change", u.Schema.To)
	case u.Copy == "":
		return fmt.Sprintf("the next command changes schema %d to %d; make a copy before, by pg_dump", u.Schema.From,
			u.Schema.To)
	}
	return fmt.Sprintf("the next command changes schema %d to %d, and first copies the journal to %s", u.Schema.From,
		u.Schema.To, u.Copy)
}

func (u Upgrade) files() string {
	const shown = 3
	some := strings.Join(u.Files[:min(shown, len(u.Files))], ", ")
	if more := len(u.Files) - shown; more > 0 {
		some += fmt.Sprintf(" and %d more", more)
	}
	switch {
	case u.Checkout && len(u.Files) > 0:
		return "the checkout differs from this program: " + some
	case u.Checkout:
		return "those of the checkout are of this version"
	case len(u.Files) == 0 && !u.Unpacks:
		return "no change"
	case len(u.Files) == 0:
		return "the next request unpacks playbooks and scripts"
	case u.Unpacks:
		return "the next request unpacks playbooks and scripts, and replaces " + some
	}
	return "the next request replaces " + some
}

func (u Upgrade) providers() string {
	var changes []string
	for _, p := range u.Providers {
		switch {
		case p.From == "":
			changes = append(changes, fmt.Sprintf("%s %s is new", p.Name, p.To))
		case p.To == "":
			changes = append(changes, fmt.Sprintf("%s %s is no longer needed", p.Name, p.From))
		default:
			changes = append(changes, fmt.Sprintf("%s changes from %s to %s", p.Name, p.From, p.To))
		}
	}
	switch {
	case len(changes) > 0:
		return strings.Join(changes, "; ")
	case u.Unseen != "":
		return ""
	}
	return "no change"
}

func (u Upgrade) instances() string {
	switch {
	case u.Unseen != "":
		return "unknown: " + u.Unseen
	case len(u.Refused) > 0:
		return "Terraform's plan is not empty"
	}
	return "no change of an instance"
}

// next returns what to do.
func (u Upgrade) next() string {
	switch {
	case len(u.Refused) > 0:
		return "Do not deploy before each of these changes is explained: docs/guides/upgrade.md."
	case u.Checkout && len(u.Files) > 0:
		return "Bring the checkout to the version of this program, or build the program from the checkout."
	case u.Unseen != "":
		return "Repeat this when Terraform can plan."
	case u.Worker && !u.upToDate():
		return "A worker runs. Wait until it has ended (`reconfigure status` shows it), then run `reconfigure deploy`."
	case u.upToDate():
		return "There is nothing to do."
	}
	return "Next: `reconfigure deploy`, which gives the nodes this version's configuration. Jobs go on."
}

func (u Upgrade) upToDate() bool {
	return u.Schema.From == u.Schema.To && len(u.Files) == 0 && !u.Unpacks && len(u.Providers) == 0 &&
		len(u.Terraform) == 0
}
