package lifecycle_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/store/postgres/pgtest"
)

// base runs games on a PostgreSQL server, with the same clock as disk. To simulate a crash, the store stops writing. The database is then
// in the same state as after kill -9.
type base struct {
	disk
	url, dir string
	store    *postgres.Store
	dead     *atomic.Bool
}

func (b *base) open(cfg lifecycle.Config) (*lifecycle.Engine, error) {
	dead := &atomic.Bool{}
	// The store waits longer for a connection than by default: on a busy machine the test may end connections faster than the store opens
	// new ones.
	s, err := postgres.Open(context.Background(), postgres.Config{URL: b.url, Dir: b.dir, Now: b.now, Lease: 3 * time.Minute, FailPoint: func(string) error {
		if dead.Load() {
			return fmt.Errorf("%w: killed", store.ErrFatal)
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	b.store, b.dead, cfg.Store = s, dead, s
	e, err := lifecycle.New(cfg)
	if err == nil {
		_, err = e.Recover(context.Background())
	}
	return e, err
}

func (b *base) cut(e *lifecycle.Engine, crash bool) {
	b.dead.Store(crash)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e.Drain(ctx)
	if err := b.store.Close(); err != nil && !crash {
		panic(err)
	}
}

// TestModelPostgres runs random calls on a real server while the test repeatedly ends all connections (T88).
func TestModelPostgres(t *testing.T) {
	server, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var spoiling sync.WaitGroup
	spoiling.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + pgtest.Role + "'"); err != nil {
				t.Errorf("end the connections: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(200*time.Millisecond + time.Duration(n)*5*time.Millisecond): // The pause grows, so that a slow machine also makes progress.
			}
		}
	})
	defer spoiling.Wait()
	defer cancel()
	games := 8 // rapid draws 100 sequences; the test executes only the first of them
	if os.Getenv("TOOLD_NIGHTLY") != "" {
		games = 1000
	}
	played, broken := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		ops := drawOps(rt, modelTools)
		if played++; played > games && !broken {
			return
		}
		g := &game{t: t, d: &base{url: server.URL(fmt.Sprint("game", played)), dir: t.TempDir()}}
		failed := g.play(ops[:min(len(ops), 12)])
		if failed != nil {
			broken = true // rapid has found a failure, and now shrinks the sequence.
			g.freeAll()
			g.d.cut(g.e, false)
			rt.Fatalf("%v", failed)
		}
	})
}
