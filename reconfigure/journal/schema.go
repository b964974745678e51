package journal

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// The migrations, a folder for each database. Each one is run and noted in one transaction: a process that is killed
// leaves a whole version.
//
//go:embed schema
var schemas embed.FS

// migrator returns what runs the migrations in the folder of that name. Only one process may use it at a time.
func migrator(
	dialect goose.Dialect, folder string, db *sql.DB, options ...goose.ProviderOption,
) (*goose.Provider, error) {
	files, err := fs.Sub(schemas, "schema/"+folder)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(dialect, db, files, append(options, goose.WithDisableGlobalRegistry(true))...)
}

// upToDate reports whether a schema of that version is the newest one. A later one is an error.
func upToDate(p *goose.Provider, version int64) (bool, error) {
	var newest int64
	for _, s := range p.ListSources() {
		newest = max(newest, s.Version)
	}
	if version > newest {
		return false, fmt.Errorf(
			"its schema has version %d, and this reconfigure knows versions up to %d: use the newer reconfigure that "+
				"wrote it",
			version, newest)
	}
	return version == newest, nil
}

// migrate runs the migrations that are missing.
func migrate(ctx context.Context, p *goose.Provider) error {
	_, err := p.Up(ctx)
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		return fmt.Errorf("migrate its schema to version %d: %w", partial.Failed.Source.Version, partial.Err)
	}
	return err
}
