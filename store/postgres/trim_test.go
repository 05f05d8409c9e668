package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store/postgres"
)

// TestTrimMayTakeItsTime: to forget what is old may take longer than the patience with a server that is away. It ended the
// daemon, and the next one, which began with the same.
func TestTrimMayTakeItsTime(t *testing.T) {
	const patience = 5 * time.Second
	cfg := postgres.Config{URL: freshURL(t), Patience: patience}
	s := open(t, cfg)
	conn, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE tombstones"); err != nil {
		t.Fatal(err)
	}
	trimmed := make(chan error, 1)
	go func() {
		_, err := s.Trim(t.Context(), time.Time{}, time.Time{}, time.Time{}, 10)
		trimmed <- err
	}()
	time.Sleep(patience + 500*time.Millisecond)
	if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-trimmed; err != nil {
		t.Errorf("Trim = %v", err)
	}
	if err := s.Commit(t.Context(), creation(newCall("a"))); err != nil {
		t.Errorf("Commit afterwards = %v", err)
	}
}
