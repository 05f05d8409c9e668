package postgres_test

import (
	"testing"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/store/storetest"
)

func TestStore(t *testing.T) {
	type opened struct {
		cfg   postgres.Config
		crash *bool
	}
	stores := map[store.Store]opened{}
	start := func(t *testing.T, cfg postgres.Config, o storetest.Options) store.Store {
		crash := new(bool)
		cfg.Now, cfg.MaxOpen, cfg.Readers = o.Now, 8, 2
		cfg.FailPoint = func(point string) error {
			if point == "close" && *crash {
				return errKilled
			}
			return nil
		}
		s := open(t, cfg)
		stores[s] = opened{cfg, crash}
		return s
	}
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T, o storetest.Options) store.Store {
			return start(t, postgres.Config{URL: freshURL(t), Dir: t.TempDir()}, o)
		},
		Reopen: func(t *testing.T, s store.Store, o storetest.Options) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return start(t, stores[s].cfg, o)
		},
		// This crash only skips the writes of a clean end. TestKill uses kill -9.
		Crash: func(t *testing.T, s store.Store, o storetest.Options) store.Store {
			*stores[s].crash = true
			if err := s.Close(); err == nil {
				t.Fatal("the store closed in order")
			}
			return start(t, stores[s].cfg, o)
		},
	})
}

func TestListsAreBounded(t *testing.T) { storetest.RunBounds(t, open(t, postgres.Config{})) }
