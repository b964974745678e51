package site

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// removing is a Provisioner that changes the map of nodes, and then fails if it has an error.
type removing struct {
	operation.Provisioner
	log     *journal.Journal
	nodes   map[string]reconfigure.Spec
	failure error
}

func (r removing) Apply(
	ctx context.Context, _ reconfigure.Preview, _ operation.Watch, _ <-chan struct{},
) (reconfigure.Failures, error) {
	return nil, errors.Join(r.failure, r.log.KeepNodes(ctx, "", r.nodes))
}

// TestTheKeyOfANodeIsRevokedWhenItGoes removes a node, in a run of Terraform that fails for another one, and then the
// whole cluster.
func TestTheKeyOfANodeIsRevokedWhenItGoes(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	file := filepath.Join(dir, "authorized_keys")
	const (
		foreign = "ssh-rsa AAAA me@home\nrestrict ssh-ed25519 AAAA reboot@other/node02\n" +
			// of another cluster of that name
			`restrict,command="/d/bin/reconfigure --dir /d gate --role controller" ssh-ed25519 AAAA slurm@eiffel` + "\n" +
			`restrict,command="'/my \"d/bin/reconfigure' --dir '/my \"d' gate --role node --node node02" ssh-ed25519 AAAA ` +
			"reboot@eiffel/node02\n"
		slurm = `restrict,command="'/my \"c/bin/reconfigure' --dir '/my \"c' gate --role controller" ssh-ed25519 AAAA slurm@eiffel` +
			"\n"
		node01 = "restrict ssh-ed25519 AAAA reboot@eiffel/node01\n" // without a command
		node02 = "restrict ssh-ed25519 AAAA reboot@eiffel/node02\n"
	)
	if err := os.WriteFile(file, []byte(foreign+slurm+node01+node02), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := journal.Open(ctx, filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s := Site{Dir: dir, Cluster: reconfigure.Cluster{
		Name: "eiffel", Control: reconfigure.Control{Name: "ctl"}, Settings: reconfigure.Settings{AuthorizedKeys: file, Directory: `/my "c`},
	}}
	revoke := func(ctx context.Context) {
		if err := s.revokeKeys(ctx, log); err != nil {
			t.Error(err)
		}
	}
	there := reconfigure.Spec{ImageID: "image", FlavorID: "flavor", NetworkID: "network"}
	for _, step := range []struct {
		action reconfigure.Action
		nodes  map[string]reconfigure.Spec
		fails  error
		want   string
	}{
		{reconfigure.Create, map[string]reconfigure.Spec{}, nil, foreign + slurm + node01 + node02},
		{
			reconfigure.Remove,
			map[string]reconfigure.Spec{"ctl": there, "node01": there, "node02": {NetworkID: "network"}},
			errors.New("the answer was lost"), foreign + slurm + node01,
		},
		{reconfigure.Remove, map[string]reconfigure.Spec{}, nil, foreign},
	} {
		p := reconfigure.Preview{Plan: reconfigure.Plan{Changes: []reconfigure.Change{{Node: "node02", Action: step.action}}}}
		apply := revoking{removing{nil, log, step.nodes, step.fails}, revoke}.Apply
		if _, err := apply(ctx, p, nil, nil); !errors.Is(err, step.fails) {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != step.want {
			t.Errorf("%v, in the file:\n%swant:\n%s", err, got, step.want)
		}
	}
}
