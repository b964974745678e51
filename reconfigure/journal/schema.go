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

// The migrations, a folder for each database. Each one is run and recorded in one transaction: a killed process
// leaves a complete version.
//
//go:embed schema
var schemas embed.FS

// migrator returns a provider that runs the migrations in the folder with that name. Only one process may use it at a
// time.
func migrator(
	dialect goose.Dialect, folder string, db *sql.DB, options ...goose.ProviderOption,
) (*goose.Provider, error) {
	files, err := fs.Sub(schemas, "schema/"+folder)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(dialect, db, files, append(options, goose.WithDisableGlobalRegistry(true))...)
}

// newestOf returns the newest version of a migrator.
func newestOf(p *goose.Provider) (version int64) {
	for _, s := range p.ListSources() {
		version = max(version, s.Version)
	}
	return version
}

// upToDate reports whether the journal has the newest version. A later one is an error.
func (s Schema) upToDate() (bool, error) {
	if s.Version > s.Newest {
		return false, fmt.Errorf(
			"its schema has version %d, but this reconfigure knows versions up to %d: use the newer reconfigure that "+
				"wrote it",
			s.Version, s.Newest)
	}
	return s.Version == s.Newest, nil
}

// migrate runs the missing migrations.
func migrate(ctx context.Context, p *goose.Provider) error {
	_, err := p.Up(ctx)
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		return fmt.Errorf("migrate its schema to version %d: %w", partial.Failed.Source.Version, partial.Err)
	}
	return err
}
