package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store"
)

// place names what a journal is in. A dump that was loaded elsewhere is in another one, and so is a server that was
// brought back to an earlier time.
const selectPlace = `SELECT (SELECT system_identifier::text FROM pg_control_system()) || ' ' || (SELECT timeline_id::text FROM pg_control_checkpoint())
	|| ' ' || (SELECT oid::text FROM pg_database WHERE datname = current_database()) || ' ' || to_regnamespace($1)::oid::text,
	(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// beginEpoch makes the start of this daemon durable before anything else is done in it. Who wrote before waits for it,
// or it waits for them: from then on they are fenced.
func (s *Store) beginEpoch(ctx context.Context, conn *pgx.Conn) (groups, position int64, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var here, place string
		var micros, clock int64
		if err := tx.QueryRow(ctx, selectPlace, s.target.schema).Scan(&here, &micros); err != nil {
			return err
		}
		s.clock.set(time.UnixMicro(micros))
		id := store.Identity{StoreID: uuid.NewString(), Clean: true}
		err := tx.QueryRow(ctx, "SELECT store_id, epoch, clock, position, groups, place, clean FROM meta FOR UPDATE").
			Scan(&id.StoreID, &id.Epoch, &clock, &position, &groups, &place, &id.Clean)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			place = here
		case err != nil:
			return err
		}
		s.clock.resume(time.Unix(0, clock).UTC())
		id.Epoch++
		if place != here {
			if id.Moved = !s.cfg.Moved; s.cfg.Moved {
				place = here
			}
		}
		s.id.Store(&id)
		_, err = tx.Exec(ctx, `INSERT INTO meta (id, store_id, epoch, clock, position, groups, place, clean) VALUES (1, $1, $2, $3, $4, $5, $6, false)
			ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, clock = excluded.clock, place = excluded.place, clean = false`,
			id.StoreID, id.Epoch, s.clock.now().UnixNano(), position, groups, place)
		return err
	})
	return groups, position, said(err)
}

// Acknowledge remembers the place as it is now: an operator has released the calls of a store that was copied. Until then
// every start finds it moved.
func (s *Store) Acknowledge() error {
	err := s.write(func(ctx context.Context, w *writer) error {
		var here string
		var micros int64
		if err := w.conn.QueryRow(ctx, selectPlace, s.target.schema).Scan(&here, &micros); err != nil {
			return err
		}
		return w.exec(ctx, "UPDATE meta SET place = $1", here)
	})
	if err != nil {
		return err
	}
	id := s.Identity()
	id.Moved = false
	s.id.Store(&id)
	return nil
}
