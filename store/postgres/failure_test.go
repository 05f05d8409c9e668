package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
)

// breaks makes the server fail the next writes to the table calls with a SQLSTATE that the test chooses.
const breaks = `CREATE TABLE fault (code text, times int); INSERT INTO fault VALUES ('', 0); CREATE SEQUENCE seen;
	CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
	DECLARE f record;
	BEGIN
		SELECT * INTO f FROM fault;
		IF nextval('seen') <= f.times THEN RAISE EXCEPTION 'made by the test' USING ERRCODE = f.code; END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON calls FOR EACH ROW EXECUTE FUNCTION fail()`

// TestErrorsOfTheServer checks the error of the store for each class of SQLSTATE with which a statement may fail.
func TestErrorsOfTheServer(t *testing.T) {
	var passes error // nil: the store tries again until the server accepts the change
	rows := []struct {
		want  error
		codes string
	}{
		{passes, "08006 25006 25P02 25P03 40001 40P01 53000 53200 53300 53400 55006 55P03 57000 57014 57P01 57P02 57P03 57P05"},
		{store.ErrRefused, "21000 22001 22021 22P05 23502 23505 23514 44000 54000 54001"},
		{store.ErrFull, "53100"},
		{store.ErrCorrupt, "XX001 XX002"},
		{store.ErrBusy, "03000 09000 0A000 0B000 0F001 0L000 0P000 0Z000 10608 20000 24000 26000 27000 28000 28P01 2B000 2D000 2F000 34000 38000 39000 " +
			"3B001 3D000 3F000 42501 42601 42P01 58000 58030 58P01 72000 F0000 HV000 P0001 XX000"},
	}
	url := freshURL(t)
	s := open(t, postgres.Config{URL: url})
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	do := func(text string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), text, args...); err != nil {
			t.Fatal(err)
		}
	}
	do(breaks)
	for _, row := range rows {
		for _, code := range strings.Fields(row.codes) {
			times := 1000
			if row.want == passes {
				times = 1
			}
			do("UPDATE fault SET code = $1, times = $2", code, times)
			do("SELECT setval('seen', 1, false)")
			c := newCall("c-" + code)
			err := s.Commit(t.Context(), creation(c))
			if !errors.Is(err, row.want) || meanings(err) > 1 {
				t.Errorf("%s: %v, want %v", code, err, row.want)
			}
			do("UPDATE fault SET times = 0")
			if err == nil {
				continue
			}
			if err := s.Commit(t.Context(), creation(c)); err != nil {
				t.Fatalf("%s, tried again when the cause is gone: %v", code, err)
			}
		}
	}
}

// meanings counts how many errors of package store err matches.
func meanings(err error) (n int) {
	for _, meaning := range [...]error{store.ErrFull, store.ErrBusy, store.ErrRefused, store.ErrCorrupt, store.ErrFatal} {
		if errors.Is(err, meaning) {
			n++
		}
	}
	return n
}

// TestLimitsOfTheRole checks that the store overrides limits that a role or database sets for interactive users.
func TestLimitsOfTheRole(t *testing.T) {
	role := fmt.Sprintf("hurried_%d", schemas.Add(1))
	for _, text := range []string{
		"CREATE ROLE " + role + " LOGIN SUPERUSER",
		"ALTER ROLE " + role + " SET statement_timeout = '100ms'", "ALTER ROLE " + role + " SET lock_timeout = '1ms'",
		"ALTER ROLE " + role + " SET idle_in_transaction_session_timeout = '1ms'", "ALTER ROLE " + role + " SET idle_session_timeout = '1ms'",
		"ALTER ROLE " + role + " SET default_transaction_read_only = on", "ALTER ROLE " + role + " SET default_transaction_isolation = serializable",
	} {
		if err := server.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	url := freshURL(t)
	if err := open(t, postgres.Config{URL: url}).Close(); err != nil {
		t.Fatal(err)
	}
	run(t, url, "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END $$",
		"CREATE TRIGGER slow BEFORE INSERT ON calls FOR EACH ROW EXECUTE FUNCTION slow()")
	s := open(t, postgres.Config{URL: strings.Replace(url, "toold@", role+"@", 1)})
	if err := s.Commit(t.Context(), creation(newCall("slow"))); err != nil {
		t.Error(err)
	}
	if c, err := s.Call(t.Context(), key("slow")); err != nil || c.Status != call.New {
		t.Error(c, err)
	}
}
