package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store/postgres"
)

// TestT89OwnerWhoseConnectionEnds checks that an owner that loses only its connection stays the owner, although another daemon stands by.
// After a clean end the standby takes over at once.
func TestT89OwnerWhoseConnectionEnds(t *testing.T) {
	direct := freshURL(t)
	first := open(t, postgres.Config{URL: direct, SessionTimeout: 10 * time.Second, Start: time.Millisecond})
	waiting := standBy(t.Context(), t, postgres.Config{URL: direct, SessionTimeout: 10 * time.Second})
	conn, err := pgx.Connect(t.Context(), direct)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	holder := func() (pid int) {
		err := conn.QueryRow(t.Context(), `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&pid)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
		return pid
	}
	before := holder()
	for range 2 {
		if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend($1)", before); err != nil {
			t.Fatal(err)
		}
		again := 0
		for began := time.Now(); again == 0 || again == before || again != holder(); again = holder() { // The standby may hold the lock for a moment.
			if time.Since(began) > time.Minute {
				t.Fatal("nobody has the lock")
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err := first.Own(t.Context()); err != nil {
			t.Fatalf("the owner lost the store: %v", err)
		}
		before = again
	}
	if err := first.Commit(t.Context(), creation(newCall("a"))); err != nil {
		t.Errorf("the owner cannot store: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := <-waiting
	if second == nil {
		t.Fatal("nobody follows")
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
