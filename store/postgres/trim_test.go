package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
)

// TestTrimMayTakeItsTime checks that Trim and purges may take longer than Config.Lease. Otherwise a slow trim would stop the daemon. The
// next daemon begins with the same trim, so the trim would stop this daemon too.
func TestTrimMayTakeItsTime(t *testing.T) {
	t.Parallel() // This test waits longer than the lease.
	for name, work := range map[string]struct {
		table string
		do    func(s *postgres.Store) error
	}{
		"trim": {"tombstones", func(s *postgres.Store) error {
			_, err := s.Trim(t.Context(), 0, 0, 0, 10)
			return err
		}},
		"purge": {"policies", func(s *postgres.Store) error {
			return s.Shred(t.Context(), store.Shredding{Namespace: "ns", Runs: []string{"r"}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takesItsTime(t, work.table, work.do)
		})
	}
}

func takesItsTime(t *testing.T, table string, work func(s *postgres.Store) error) {
	const lease = 15 * time.Second
	cfg := postgres.Config{URL: freshURL(t), Lease: lease}
	s := open(t, cfg)
	conn, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE "+table); err != nil {
		t.Fatal(err)
	}
	trimmed := make(chan error, 1)
	go func() { trimmed <- work(s) }()
	time.Sleep(lease + 500*time.Millisecond)
	if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-trimmed; err != nil {
		t.Error(err)
	}
	if err := s.Commit(t.Context(), creation(newCall("a"))); err != nil {
		t.Errorf("Commit afterwards = %v", err)
	}
}
