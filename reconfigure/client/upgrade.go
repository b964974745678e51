package client

import (
	"context"
	"errors"
	"log/slog"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	tf "github.com/eiffel-hpc/eiffel/reconfigure/terraform"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Upgrade returns what this version of the program changes in a cluster directory. It changes nothing. If Terraform
// cannot plan, unplanned says why, and the rest is there nevertheless. It may be retried.
func Upgrade(ctx context.Context, s site.Site, log *slog.Logger) (u status.Upgrade, unplanned, err error) {
	schema, held, err := s.Schema(ctx)
	if err != nil {
		return u, nil, err
	}
	u = status.Upgrade{
		Schema: status.Versions{From: schema.Version, To: schema.Newest}, Worker: held,
		Declaration: config.Name(s.Dir), Checkout: s.Checkout(),
	}
	if schema.Version > 0 && schema.Version != schema.Newest && s.Cluster.Settings.Journal == "" {
		u.Copy = journal.CopyName(s.StateFile(journal.FileName), schema.Version)
	}
	if u.Files, u.Unpacks, err = s.ProgramChanges(); err != nil {
		return u, nil, err
	}
	preview, err := s.PreviewUpgrade(ctx, schema, log)
	u.Terraform = preview.Changes
	if preview.After != nil {
		u.Providers = status.ChangedProviders(preview.Before, preview.After)
	}
	if refusal, refused := errors.AsType[*reconfigure.Refusal](err); refused {
		u.Refused = refusal.Changes
	} else if errors.Is(err, tf.ErrNotInitialized) {
		u.Unseen = "Terraform has never run here, so there are none"
	} else if err != nil {
		if ctx.Err() != nil {
			return u, nil, err
		}
		u.Unseen, unplanned = text.OneLine(err.Error()), err
	}
	return u, unplanned, nil
}
