package terraform

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// The lines are from Terraform 1.5.7, without the unused fields.
const (
	updatesN1 = `{"type":"planned_change","change":{"action":"update","resource":{` +
		`"addr":"openstack_compute_instance_v2.node[\"n1\"]"}}}`
	replacesPortOfN1 = `{"type":"planned_change","change":{"action":"replace","resource":{` +
		`"addr":"openstack_networking_port_v2.node[\"n1\"]"}}}`
	updatesN3 = `{"type":"planned_change","change":{"action":"update","resource":{` +
		`"addr":"openstack_compute_instance_v2.node[\"n3\"]"}}}`
	updatesShared = `{"type":"planned_change","change":{"action":"update","resource":{` +
		`"addr":"openstack_networking_secgroup_v2.cluster"}}}`
	driftOfN1 = `{"type":"resource_drift","change":{"action":"update","resource":{` +
		`"addr":"openstack_compute_instance_v2.node[\"n1\"]"}}}`
)

// A server is adopted only if a plan over all candidates changes nothing. A change of a candidate prevents its
// adoption; any other change prevents the adoption of all.
func TestWhoIsNotProvenByAPlan(t *testing.T) {
	const (
		update  = "it cannot be adopted: Terraform would update openstack_compute_instance_v2.node[\"n1\"]"
		port    = "Terraform would replace openstack_networking_port_v2.node[\"n1\"]"
		foreign = "it cannot be adopted: Terraform would update openstack_compute_instance_v2.node[\"n3\"]"
		shared  = "it cannot be adopted: Terraform would update openstack_networking_secgroup_v2.cluster"
		output  = "it cannot be adopted: Terraform would change something that is not a resource"
	)
	broken := errors.New("no answer")
	for name, tc := range map[string]struct {
		events  []string
		changes bool // Terraform's exit code is 2
		err     error
		want    map[string]string
		failure error
	}{
		"no changes":  {events: []string{v15, driftOfN1, nothing}},
		"an instance": {[]string{v15, updatesN1, updated}, true, nil, map[string]string{"n1": update}, nil},
		"an instance and a port": {
			[]string{updatesN1, replacesPortOfN1}, true, nil, map[string]string{"n1": update + "; " + port}, nil,
		},
		"another node":   {[]string{updatesN3}, true, nil, map[string]string{"n1": foreign, "n2": foreign}, nil},
		"what is shared": {[]string{updatesShared}, true, nil, map[string]string{"n1": shared, "n2": shared}, nil},
		"no resource":    {[]string{v15, nothing}, true, nil, map[string]string{"n1": output, "n2": output}, nil},
		"one node keeps it from being planned": {
			err:  &reconfigure.Unplannable{Failures: reconfigure.Failures{"n2": broken}},
			want: map[string]string{"n2": "no answer"},
		},
		"it could not be planned": {err: broken, failure: broken},
	} {
		t.Run(name, func(t *testing.T) {
			a := adoption{module: keeping(reconfigure.DefaultShard), candidates: []string{"n1", "n2"}}
			found, err := a.objections(&stream{events: eventsOf(t, tc.events...)}, tc.changes, tc.err)
			var said map[string]string
			for node, why := range found {
				if said == nil {
					said = map[string]string{}
				}
				said[node] = why.Error()
			}
			if diff := cmp.Diff(tc.want, said); diff != "" || !errors.Is(err, tc.failure) {
				t.Errorf("%v; not adopted (-want +got):\n%s", err, diff)
			}
		})
	}
}
