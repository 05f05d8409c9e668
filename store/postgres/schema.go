package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
)

var (
	// ErrNewer means that a later release of toold has written this journal.
	ErrNewer = errors.New("journal has the schema of a newer toold")
	// ErrForeign means that the schema contains tables that are not a journal of toold.
	ErrForeign = errors.New("not a journal of toold")
)

// The files in schema are applied in order, in one transaction that also stores the new version. A released file never changes.
//
//go:embed schema/*.sql
var schema embed.FS

// migrate applies the missing schema files. There is no downgrade. Only the owner of the journal may call it.
func migrate(ctx context.Context, conn *pgx.Conn, name string, schemas fs.FS, point func(string) error) error {
	files, err := fs.Glob(schemas, "schema/*.sql")
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		version, err := schemaVersion(ctx, tx, name)
		if err != nil {
			return err
		}
		if err := checkVersion(version, len(files)); err != nil || version == len(files) {
			return err
		}
		for _, file := range files[version:] {
			text, err := fs.ReadFile(schemas, file)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(text)); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if err := point("migrate"); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "UPDATE toold_journal SET version = $1", len(files))
		return err
	})
	if errors.Is(err, ErrNewer) || errors.Is(err, ErrForeign) {
		return err
	}
	return wrapError(err)
}

// checkVersion fails when this release cannot migrate a journal of the version to the latest one.
func checkVersion(version, latest int) error {
	switch {
	case version < 0:
		return fmt.Errorf("%w: version %d in toold_journal", ErrForeign, version)
	case version > latest:
		return fmt.Errorf("%w: version %d; this toold knows versions up to %d", ErrNewer, version, latest)
	}
	return nil
}

// schemaVersion returns the version of the journal in a schema, and creates the schema when it does not exist. Version 0 is a new journal.
func schemaVersion(ctx context.Context, tx pgx.Tx, name string) (version int, err error) {
	var there, made bool
	var tables int
	err = tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL, to_regnamespace($2) IS NOT NULL, (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace($2)::oid)`,
		name+".toold_journal", name).Scan(&there, &made, &tables)
	switch {
	case err != nil:
		return 0, err
	case there:
		err = tx.QueryRow(ctx, "SELECT version FROM toold_journal").Scan(&version)
		return version, err
	case tables > 0:
		return 0, fmt.Errorf("%w: the schema has %d tables and indexes that are not toold's; name an empty schema with search_path", ErrForeign, tables)
	}
	statements := []string{"CREATE TABLE toold_journal (version integer NOT NULL)", "INSERT INTO toold_journal VALUES (0)"}
	if !made { // CREATE SCHEMA needs a right that the role may lack for an existing schema.
		statements = append([]string{"CREATE SCHEMA " + pgx.Identifier{name}.Sanitize()}, statements...)
	}
	for _, text := range statements {
		if _, err := tx.Exec(ctx, text); err != nil {
			return 0, err
		}
	}
	return 0, nil
}
