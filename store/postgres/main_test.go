package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/store/postgres/pgtest"
)

// server is shared by the tests of this process. Tests that stop or break a server start their own.
var server *pgtest.Server

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		child(url)
	}
	var err error
	if server, err = pgtest.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		if err := server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

var schemas atomic.Int64

// freshURL returns the URL of an unused schema.
func freshURL(t testing.TB) string {
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(t.Name()), "_")
	return server.URL(fmt.Sprintf("s%d_%.40s", schemas.Add(1), name))
}

func open(t testing.TB, cfg postgres.Config) *postgres.Store {
	t.Helper()
	if cfg.URL == "" {
		cfg.URL = freshURL(t)
	}
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s, err := postgres.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		wantBeside(t, cfg.URL)
	})
	return s
}

// wantBeside checks that the tables statuses and ended match the table calls. It runs at the end of every test that opens a store. It does
// nothing when the server no longer runs.
func wantBeside(t testing.TB, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return
	}
	defer conn.Close(ctx)
	const differ = `SELECT count(*) FROM ((TABLE is_so EXCEPT ALL TABLE is_said) UNION ALL (TABLE is_said EXCEPT ALL TABLE is_so)) differ`
	for _, with := range []string{
		`WITH is_so AS (SELECT status, position, namespace, thread_id FROM calls WHERE status <> 'SUCCEEDED'), is_said AS (SELECT status, position, namespace, thread_id FROM statuses) `,
		`WITH is_so AS (SELECT ended, position FROM calls WHERE ended IS NOT NULL), is_said AS (SELECT ended, position FROM ended) `,
	} {
		var n int
		if err := conn.QueryRow(ctx, with+differ).Scan(&n); err == nil && n > 0 {
			t.Errorf("%d rows beside the calls are not as these say: %s", n, with)
		}
	}
}

var errKilled = errors.New("killed")

// shortDir returns a directory for a socket, because the path of t.TempDir may be too long for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "toold")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
