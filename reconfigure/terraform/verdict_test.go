package terraform

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// script returns an event stream: "start ADDRESS ACTION [ID]", "done ADDRESS ACTION", "errored ADDRESS ACTION", "error
// ADDRESS|- TEXT".
func script(t *testing.T, lines ...string) []event {
	t.Helper()
	var s stream
	for _, line := range lines {
		kind, rest, _ := strings.Cut(line, " ")
		address, what, _ := strings.Cut(rest, " ")
		action, id, _ := strings.Cut(what, " ")
		types := map[string]string{"start": applyStart, "done": applyComplete, "errored": applyErrored}
		text := fmt.Sprintf(`{"type":%q,"hook":{"resource":{"addr":%q},"action":%q,"id_value":%q}}`, types[kind],
			address, action, id)
		if kind == "error" {
			text = fmt.Sprintf(`{"type":"diagnostic","diagnostic":{"severity":"error","summary":%q,"address":%q}}`,
				what, strings.TrimPrefix(address, "-"))
		}
		if _, err := s.Write([]byte(text + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	return s.events
}

func TestVerdicts(t *testing.T) {
	creates := []reconfigure.ResourceChange{
		{Address: "i.a", Node: "a", Effect: reconfigure.EffectCreate},
		{Address: "i.b", Node: "b", Effect: reconfigure.EffectCreate},
		{Address: "p.a", Node: "a", Effect: reconfigure.EffectCreate},
		{Address: "p.b", Node: "b", Effect: reconfigure.EffectCreate},
		{Address: "group", Effect: reconfigure.EffectCreate},
	}
	deletes := []reconfigure.ResourceChange{
		{Address: "i.a", Node: "a", Effect: reconfigure.EffectDelete},
		{Address: "i.b", Node: "b", Effect: reconfigure.EffectDelete},
		{Address: "group", Effect: reconfigure.EffectDelete},
	}
	replace := []reconfigure.ResourceChange{{Address: "i.a", Node: "a", Effect: reconfigure.EffectReplace},
		{Address: "i.b", Node: "b", Effect: reconfigure.EffectRebuild}}
	good := []string{"done group create", "done p.a create", "done i.a create"}
	for name, tc := range map[string]struct {
		changes []reconfigure.ResourceChange
		events  []string
		want    map[string]string
		unclear bool
	}{
		"one node fails, the other is fine": {
			creates, append([]string{"done p.b create", "errored i.b create", "error i.b no valid host"}, good...),
			map[string]string{"b": "no valid host"}, false,
		},
		"what waits for a failed part is not told": {
			creates, append([]string{"errored p.b create", "error p.b no more addresses"}, good...),
			map[string]string{"b": "no more addresses"}, false,
		},
		"two parts fail": {
			creates, append([]string{"error i.b one", "error p.b two"}, good...), map[string]string{"b": "one; two"},
			false,
		},
		"Terraform did not get to a node": {
			creates, append([]string{"done p.b create"}, good...),
			map[string]string{"b": "Terraform did not get to create i.b"}, false,
		},
		"Terraform did not get to a node, since another failed": {
			creates, []string{"done group create", "done p.a create", "errored p.b create",
				"error p.b no more addresses"},
			map[string]string{"a": "Terraform did not get to create i.a, since another failed: no more addresses",
				"b": "no more addresses"}, false,
		},
		"a shared resource fails": {
			creates, append([]string{"error group forbidden", "done p.b create", "done i.b create"}, good[1:]...), nil,
			true,
		},
		"a shared one waits for a node that failed": {
			deletes, []string{"start i.a delete 1", "start i.b delete 2", "done i.a delete", "errored i.b delete",
				"error - (2) unexpected state"}, map[string]string{"b": "(2) unexpected state"}, false,
		},
		"removals fail, each told by its id": {
			deletes, []string{"start i.a delete 1a", "start i.b delete 2b", "errored i.a delete", "errored i.b delete",
				"error - (2b) stuck", "error - (1a) gone wild"},
			map[string]string{"a": "(1a) gone wild", "b": "(2b) stuck"}, false,
		},
		"removals fail, and no id tells which is which": {
			deletes, []string{"start i.a delete 1a", "start i.b delete 2b", "errored i.a delete", "errored i.b delete",
				"error - no route"},
			map[string]string{"a": "no route", "b": "no route"}, false,
		},
		"an error without a resource": {creates,
			append([]string{"error i.b no valid host", "error - failed to write the state"}, good...), nil, true},
		"an error of what is no change": {creates,
			append([]string{"error data.x gone", "error i.b no valid host", "done p.b create"}, good...), nil, true},
		"everything is done, yet Terraform failed": {
			creates, append([]string{"done p.b create", "done i.b create"}, good...), nil, true,
		},
		"half of a replacement is none": {replace, []string{"done i.a delete", "done i.b update", "error i.a quota"},
			map[string]string{"a": "quota"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			failures, all := classes.verdicts(tc.changes, script(t, tc.events...))
			if all == tc.unclear {
				t.Fatalf("accounts for everything: %t, %v", all, failures)
			}
			if tc.unclear {
				return
			}
			got := map[string]string{}
			for node, err := range failures {
				got[node] = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStreamIgnoresUnknownLines(t *testing.T) {
	var heard []string
	s := stream{on: func(e event) { heard = append(heard, e.Type) }}
	for _, part := range []string{`{"type":"ver`, "sion\"}\npanic: oh\n{\"type\":5}\n", `{"type":"apply_start"}`,
		"\nrest"} {
		if n, err := s.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if diff := cmp.Diff([]string{"version", "apply_start"}, heard); diff != "" {
		t.Error(diff)
	}
}

func TestFailedRunIsExplained(t *testing.T) {
	bare := errors.New("exit status 1")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	lock := event{Diagnostic: &tfjson.Diagnostic{Severity: "error", Summary: "Error acquiring the state lock",
		Detail: "no such bucket"}}
	warning := event{Diagnostic: &tfjson.Diagnostic{Severity: "warning", Summary: "targeting is in use"}}
	quota := event{Diagnostic: &tfjson.Diagnostic{Severity: "error", Summary: "quota\n  exceeded",
		Detail: "for\ncores"}}
	for name, tc := range map[string]struct {
		ctx    context.Context
		events []event
		want   string
	}{
		"by itself": {t.Context(), []event{warning}, "exit status 1"},
		"on one line": {t.Context(), []event{quota, quota},
			"quota exceeded: for cores; quota exceeded: for cores"},
		"the context comes first": {cancelled, []event{quota}, "context canceled (exit status 1)"},
		"an error of locking without an owner": {t.Context(), []event{lock},
			"Error acquiring the state lock: no such bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			s := stream{class: classes, events: tc.events}
			if got := s.explain(tc.ctx, bare); got.Error() != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// The sentences are the provider's; reconfigure's tests have more of them. The provider prints "%!s(<nil>)" for a
// missing error.
func TestAMissingErrorIsNotPrinted(t *testing.T) {
	const ready = "Error waiting for instance (1) to become ready: unexpected state 'ERROR', wanted target 'ACTIVE'"
	if got := sentence(tfjson.Diagnostic{Summary: ready + ". last error: %!s(<nil>)"}); got != ready {
		t.Error(got)
	}
}

func TestClassOfTerraformsErrors(t *testing.T) {
	const (
		quota = `Error creating OpenStack server: Request forbidden: [POST x], error message: ` +
			`{"forbidden":{"code":403,"message":"Quota exceeded for instances: Requested 1, but already used 2 of 2 ` +
			`instances"}}`
		rate = "Error creating openstack_networking_port_v2: Too many requests have been sent in a given amount of " +
			"time."
		lost = `Error creating OpenStack server: Post "http://x/servers": OpenStack connection error, retries ` +
			`exhausted. Aborting. Last error was: EOF`
		other = "Terraform did not get to create i.a"

		waiting = "Error waiting for instance (1) to become ready: "
		refused = waiting + `Get "http://x/servers/1": dial tcp 192.0.2.1:8774: connect: connection refused`
		away    = waiting + "The service is currently unable to handle the request due to a temporary overloading " +
			"or maintenance. This is a temporary condition. Try again later."
		deleting = "Error waiting for instance (1) to Delete:  unexpected state 'ERROR', wanted target 'DELETED, " +
			"SOFT_DELETED'. last error: %!s(<nil>)"
	)
	for _, tc := range []struct {
		want reconfigure.Class
		said []string
	}{
		{reconfigure.ClassQuota, []string{quota}},
		{reconfigure.ClassQuota, []string{other, quota}},
		{reconfigure.ClassQuota, []string{quota, rate}},
		{reconfigure.ClassRateLimit, []string{rate, quota}},
		{reconfigure.ClassUnknown, []string{quota, lost, rate}},
		{reconfigure.ClassOther, []string{other}},
		{reconfigure.ClassCloud, []string{refused}},
		{reconfigure.ClassCloud, []string{away}},
		{reconfigure.ClassUnknown, []string{deleting}},
	} {
		err := classes.told(tc.said)
		if got := reconfigure.ClassOf(err); got != tc.want || err.Error() != strings.Join(tc.said, "; ") {
			t.Errorf("%s, want %s: %v", got, tc.want, err)
		}
	}
}
