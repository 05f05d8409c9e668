package conformance_test

import (
	"strings"
	"testing"

	"github.com/toold-dev/toold/conformance"
	"github.com/toold-dev/toold/store/postgres/pgtest"
)

// TestSQLite plays all transcripts against the release build of the daemon, including kills with SIGKILL.
func TestSQLite(t *testing.T) { playAll(t, start(t)) }

// TestPostgres plays all transcripts against a daemon whose store is on a real PostgreSQL server.
func TestPostgres(t *testing.T) {
	server, err := pgtest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	playAll(t, start(t, "--store", server.URL("conformance")))
}

func playAll(t *testing.T, d *daemon) {
	t.Helper()
	all, err := conformance.All()
	must(t, err)
	config := d.config()
	for _, tr := range all {
		t.Run(tr.Name, func(t *testing.T) { playOne(t, d, config, tr) })
	}
}

func playOne(t *testing.T, d *daemon, config conformance.Config, tr *conformance.Transcript) {
	t.Helper()
	out, err := conformance.Run(t.Context(), config, tr)
	if err != nil {
		t.Fatalf("%v\n%s", err, d.log)
	}
	if len(out.Unmet) > 0 {
		t.Fatalf("needs %s", strings.Join(out.Unmet, "; "))
	}
	if !out.Passed() {
		t.Fatalf("%s:%d, %s\n  %s\ncame:\n  %s", tr.Name, out.Line, out.Step, strings.Join(out.Differs, "\n  "), strings.Join(out.Came, "\n  "))
	}
}
