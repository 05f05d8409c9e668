package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// selectLocation selects the location of a journal: its server, timeline, database and schema. The location changes when a dump is loaded into
// another database, and when a server is restored to an earlier time.
const selectLocation = `SELECT (SELECT system_identifier::text FROM pg_control_system()) || ' ' || (SELECT timeline_id::text FROM pg_control_checkpoint())
	|| ' ' || (SELECT oid::text FROM pg_database WHERE datname = current_database()) || ' ' || to_regnamespace($1)::oid::text,
	(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// beginEpoch stores the new epoch before the daemon does anything else. It locks the row of meta, so this transaction and those of the
// previous owner run one after the other. After this transaction, the previous owner cannot commit any more.
func (s *Store) beginEpoch(ctx context.Context, conn *pgx.Conn) (groups, position int64, err error) {
	home, err := s.home()
	if err != nil {
		return 0, 0, err
	}
	var hold time.Duration
	asked := boot()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var here, location string
		var micros, clock int64
		if err := tx.QueryRow(ctx, selectLocation, s.target.schema).Scan(&here, &micros); err != nil {
			return err
		}
		s.clock.set(time.UnixMicro(micros))
		before := predecessor{Home: home}
		id := store.Identity{StoreID: uuid.NewString(), Clean: true}
		err := tx.QueryRow(ctx, "SELECT store_id, epoch, clock, position, groups, place, clean, lease, home, holding FROM meta FOR UPDATE").
			Scan(&id.StoreID, &id.Epoch, &clock, &position, &groups, &location, &id.Clean, &before.Lease, &before.Home, &before.Holding)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			location = here
		case err != nil:
			return err
		}
		s.clock.Resume(call.Stamp(clock))
		id.Epoch++
		moved := location != here
		if moved {
			if id.Moved = !s.cfg.Moved; s.cfg.Moved {
				location = here
			}
		}
		s.id.Store(&id)
		before.Clean, before.Moved = id.Clean, moved
		hold = s.holdAfter(before, home)
		_, err = tx.Exec(ctx, `INSERT INTO meta (id, store_id, epoch, clock, position, groups, place, clean, lease, home, holding)
			VALUES (1, $1, $2, $3, $4, $5, $6, false, $7, $8, $9)
			ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, clock = excluded.clock, place = excluded.place, clean = false,
				lease = excluded.lease, home = excluded.home, holding = excluded.holding`,
			id.StoreID, id.Epoch, int64(s.Now()), position, groups, location, int64(s.cfg.Lease), home, hold > 0)
		return err
	})
	if err == nil {
		s.owner.begin(asked, hold)
	}
	return groups, position, wrapError(err)
}

// A predecessor describes the previous owner.
type predecessor struct {
	Clean   bool // the previous owner closed the store cleanly
	Moved   bool // The location of the journal has changed. Either its calls wait for an operator, or an operator has confirmed that the old daemon is gone.
	Holding bool // The previous owner stopped during its own hold. In a hold, an owner ignores the attempts of its predecessor.
	Lease   time.Duration
	Home    string
}

// holdAfter returns for how long this daemon must ignore the attempts of the previous owner. A moved journal needs no hold. Otherwise, a
// hold is needed if the previous owner stopped during its own hold. Any other owner needs no hold if it ended cleanly, or if it had locked
// the same directory on this machine: this daemon has that lock now, so that owner has ended.
func (s *Store) holdAfter(p predecessor, home string) time.Duration {
	if p.Moved || s.cfg.Moved || !p.Holding && (p.Clean || p.Home == home) {
		return 0
	}
	return max(s.cfg.Hold, HoldFor(max(s.cfg.Lease, p.Lease), s.cfg.Kill))
}

// home identifies the directory that this daemon has locked. It contains the boot id, so it is valid until the machine restarts.
func (s *Store) home() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	info, err := s.dir.Stat()
	if err != nil {
		return "", err
	}
	at := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%s %d %d", strings.TrimSpace(string(b)), at.Dev, at.Ino), nil
}

// Acknowledge records the current location as the store's location, after an operator has released the calls of a copied store. Until then,
// every start reports the store as moved.
func (s *Store) Acknowledge() error {
	err := s.write(func(ctx context.Context, w *writer) error {
		var here string
		var micros int64
		if err := w.conn.QueryRow(ctx, selectLocation, s.target.schema).Scan(&here, &micros); err != nil {
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
