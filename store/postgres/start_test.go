package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/postgres"
)

// TestStartReadsOnce checks that a start scans the tables of all namespaces only once, and not once for each page. This must hold even when
// the server has no statistics.
func TestStartReadsOnce(t *testing.T) {
	const many = 2000
	unfinished := func(s *postgres.Store) (n int, err error) {
		err = s.Unfinished(t.Context(), func(_ call.Key, _ *call.Call, err error) error { n++; return err })
		return n, err
	}
	waiting := func(s *postgres.Store) (n int, err error) {
		q := call.Query{Statuses: []call.Status{call.Suspended}, OldestFirst: true, Limit: 100}
		for more := true; more && err == nil; more = q.After != 0 {
			var page call.Page
			page, err = s.Calls(t.Context(), q)
			n, q.After = n+len(page.Calls), page.Next
		}
		return n, err
	}
	for _, tt := range []struct {
		status call.Status
		read   func(*postgres.Store) (int, error)
		looked string
	}{
		{call.New, unfinished, "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE schemaname = current_schema AND indexrelname = 'statuses_pkey'"},
		{call.Suspended, waiting, "SELECT idx_tup_fetch FROM pg_stat_user_tables WHERE schemaname = current_schema AND relname = 'calls'"},
	} {
		t.Run(string(tt.status), func(t *testing.T) {
			cfg := postgres.Config{URL: freshURL(t), Dir: t.TempDir()}
			s := open(t, cfg)
			run(t, cfg.URL, "ALTER TABLE calls SET (autovacuum_enabled = off)", "ALTER TABLE statuses SET (autovacuum_enabled = off)")
			done := make(chan error, many)
			for i := range many {
				c := newCall(fmt.Sprint(i))
				c.Namespace, c.Status = fmt.Sprint("ns", i%3), tt.status
				s.Submit(creation(c), func(err error) { done <- err })
			}
			for range many {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			if n, err := tt.read(s); n != many || err != nil {
				t.Fatalf("%d calls, %v", n, err)
			}
			if err := s.Close(); err != nil { // The server updates its statistics when a connection ends.
				t.Fatal(err)
			}
			conn, err := pgx.Connect(t.Context(), cfg.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			looked := 0
			for until := time.Now().Add(2 * time.Minute); looked < many && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
				if err := conn.QueryRow(t.Context(), tt.looked).Scan(&looked); err != nil {
					t.Fatal(err)
				}
			}
			if looked < many || looked > 2*many {
				t.Errorf("%d rows were looked at for %d calls", looked, many)
			}
		})
	}
}
