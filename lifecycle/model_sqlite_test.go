package lifecycle_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store/sqlite"
)

// disk runs games on SQLite files. When a game lets time pass, the test does not wait: it sets the store's clock forward. To simulate a
// crash, disk copies the files in their current state, which is the state after kill -9.
type disk struct {
	root  string
	n     int
	store *sqlite.Store

	mu    sync.Mutex
	ahead time.Duration
}

func (d *disk) dir() string {
	return filepath.Join(d.root, string(rune('a'+d.n%26))+strings.Repeat("x", d.n/26))
}

func (d *disk) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Add(d.ahead)
}

func (d *disk) open(cfg lifecycle.Config) (*lifecycle.Engine, error) {
	s, err := sqlite.Open(context.Background(), sqlite.Config{Dir: d.dir(), Now: d.now, Moved: true})
	if err != nil {
		return nil, err
	}
	d.store, cfg.Store = s, s
	e, err := lifecycle.New(cfg)
	if err == nil {
		_, err = e.Recover(context.Background())
	}
	return e, err
}

func (d *disk) cut(e *lifecycle.Engine, crash bool) {
	from := d.dir()
	if crash {
		d.n++
		if err := copyFiles(d.dir(), from); err != nil {
			panic(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e.Drain(ctx)
	if err := d.store.Close(); err != nil {
		panic(err)
	}
	if crash {
		os.RemoveAll(from)
	}
}

// copyFiles copies the files of the store, the write-ahead log before the database. No file changes meanwhile.
func copyFiles(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		name := filepath.Join(to, rel)
		if entry.IsDir() {
			return os.MkdirAll(name, 0o700)
		}
		if strings.Contains(rel, "reserve") || strings.Contains(rel, "lock") || strings.HasSuffix(rel, "-shm") {
			return nil
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(name, b, 0o600)
	})
}

func (d *disk) pass(t time.Duration) {
	if t < time.Second {
		time.Sleep(t)
		return
	}
	d.mu.Lock()
	d.ahead += t
	d.mu.Unlock()
}

// settle repeats check until the engine agrees with the model. It gives up after a time that a correct engine never needs.
func (d *disk) settle(check func() error) error {
	for until := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
		err := check()
		if err == nil || errors.Is(err, errSentAgain) || time.Now().After(until) {
			return err
		}
	}
}

func (d *disk) expire(e *lifecycle.Engine) error { return e.ExpireDue(context.Background()) }

// TestModelSQLite runs random calls on real files.
func TestModelSQLite(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ops := drawOps(rt, modelTools)
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		g := &game{t: t, d: &disk{root: dir}}
		failed := g.play(ops[:min(len(ops), 12)])
		if failed != nil {
			g.freeAll()
			g.d.cut(g.e, false)
			rt.Fatalf("%v", failed)
		}
		os.RemoveAll(dir)
	})
}
