package postgres

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store/rows"
)

// A rawRow is a row in the server's binary format. It implements [rows.Row].
type rawRow [][]byte

func (r rawRow) Int(col int) (n int64) {
	switch b := r[col]; len(b) {
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b)))
	case 8:
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r rawRow) Text(col int) string { return string(r[col]) }

func (r rawRow) Bytes(col int) []byte { return append([]byte{}, r[col]...) }

func (r rawRow) Null(col int) bool { return r[col] == nil }

// Query implements [rows.Database].
func (s *Store) Query(ctx context.Context, text string, reset func(), row func(rows.Row) error, args ...any) error {
	args = bind(args)
	return s.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		reset()
		return query(ctx, conn, text, row, args...)
	})
}

// query runs a statement once and invokes row with each row.
func query(ctx context.Context, conn *pgx.Conn, text string, row func(rows.Row) error, args ...any) error {
	found, err := conn.Query(ctx, text, args...)
	if err != nil {
		return wrapError(err)
	}
	defer found.Close()
	for found.Next() {
		if err := row(rawRow(found.RawValues())); errors.Is(err, rows.ErrEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return wrapError(found.Err())
}

// queries contains the SQL texts for [rows.Reader].
var queries = rows.Queries{
	Due: selectDue, DueNamespaces: selectDueNamespaces, NextExpiry: selectNextExpiry, Waiting: selectWaiting,
	RunCounts: "SELECT status, count(*) FROM calls WHERE namespace = $1 AND run_id = $2 GROUP BY status",
	Counts:    "SELECT status, count(*) FROM statuses WHERE status IN " + rows.Unfinished + " GROUP BY status",
	CountsOf:  "SELECT status, count(*) FROM statuses WHERE namespace = $1 AND status IN " + rows.Unfinished + " GROUP BY status",
	ActionsOf: "SELECT action, count(*) FROM suspensions WHERE open AND namespace = $1 GROUP BY action",
	Expiring:  selectExpiring,
	Records:   selectRecords, RecordsBefore: selectRecordsBefore, OpenBatches: selectOpen,
	DeadLetters: "SELECT namespace, count(*) FROM actions WHERE state = 'DEAD' GROUP BY namespace",
}
