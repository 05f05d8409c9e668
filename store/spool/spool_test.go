package spool_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/spool"
	"github.com/toold-dev/toold/store/storetest"
)

func TestSpool(t *testing.T) {
	configs := map[store.Spool]spool.Config{}
	open := func(t *testing.T, config spool.Config) store.Spool {
		s, err := spool.New(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		if _, err := s.Sweep(all); err != nil {
			t.Fatal(err)
		}
		configs[s] = config
		return s
	}
	fresh := func(t *testing.T, limits store.OutputLimits) store.Spool {
		return open(t, spool.Config{Dir: filepath.Join(t.TempDir(), "spool"), MaxOpen: 4, Limits: limits})
	}
	storetest.RunSpool(t, storetest.SpoolHarness{
		Open:    func(t *testing.T) store.Spool { return fresh(t, store.OutputLimits{}) },
		Limited: fresh,
		Reopen: func(t *testing.T, s store.Spool) store.Spool {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, configs[s])
		},
	})
}

func newSpool(t *testing.T, dir string, maxOpen int) *spool.Spool {
	t.Helper()
	s, err := spool.New(spool.Config{Dir: dir, MaxOpen: maxOpen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func key(id string) call.Key { return call.Key{Namespace: "ns", ID: id} }

func appendTo(t *testing.T, s *spool.Spool, k call.Key, name string) {
	t.Helper()
	if _, err := s.Append(k, "", name, []byte("x")); err != nil {
		t.Fatal(err)
	}
}

// TestNothingForeignOnDisk checks that no file has a name that a client chose, and that other users cannot read the files.
func TestNothingForeignOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := newSpool(t, dir, 0)
	appendTo(t, s, call.Key{Namespace: "../..", ID: "/etc/cron.d/evil"}, "../../evil")
	name := regexp.MustCompile(`^([0-9a-f]+|call|spool)$`)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !name.MatchString(d.Name()) {
			t.Errorf("%s is on the disk", path)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDescriptorsAreBounded(t *testing.T) {
	const limit = 8
	s := newSpool(t, t.TempDir(), limit)
	before := descriptors(t)
	for i := range 100 {
		appendTo(t, s, key(fmt.Sprint(i)), "out")
		if open := descriptors(t) - before; open > limit {
			t.Fatalf("%d descriptors after %d streams, want at most %d", open, i+1, limit)
		}
	}
	for i := range 100 {
		s.Release(key(fmt.Sprint(i)))
	}
	if open := descriptors(t) - before; open != 0 {
		t.Errorf("%d descriptors after all were released", open)
	}
}

// TestRemoveWhileAppending checks appends while their call is removed. Every append must succeed, and no file may stay open after Close.
func TestRemoveWhileAppending(t *testing.T) {
	before := descriptors(t)
	s := newSpool(t, t.TempDir(), 0)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := s.Append(key("c"), "", "out", []byte("x")); err != nil {
					t.Errorf("Append = %v", err)
				}
			}
		})
	}
	wg.Go(func() {
		defer close(done)
		for range 300 {
			if err := s.Remove(key("c")); err != nil {
				t.Errorf("Remove = %v", err)
			}
		}
	})
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if open := descriptors(t) - before; open != 0 {
		t.Errorf("%d descriptors after Close", open)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	s := newSpool(t, dir, 0)
	for _, id := range []string{"kept", "orphan1", "orphan2"} {
		appendTo(t, s, key(id), "out")
	}
	half := filepath.Join(dir, "ab", "new-123") // left by a crash between mkdir and rename
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "README")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	removed, err := s.Sweep(func(k call.Key) (bool, error) { return k == key("kept"), nil })
	if err != nil || removed != 3 {
		t.Errorf("Sweep = %d, %v, want 3", removed, err)
	}
	if size, err := s.Size(key("kept"), "out"); err != nil || size != 1 {
		t.Errorf("kept stream: %d, %v", size, err)
	}
	for _, id := range []string{"orphan1", "orphan2"} {
		if _, err := s.Size(key(id), "out"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Size of %s = %v, want ErrNotFound", id, err)
		}
	}
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half-made directory: %v", err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a file that is not ours: %v", err)
	}
	broken := errors.New("journal closed")
	if _, err := s.Sweep(func(call.Key) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("Sweep = %v, want the error of keep", err)
	}
}

// TestHalfAppend checks an append of which the disk accepted only a part. It must leave no bytes, and the next append must begin at the
// same offset.
func TestHalfAppend(t *testing.T) {
	s := newSpool(t, t.TempDir(), 0)
	appendTo(t, s, key("c"), "out")
	limitFileSize(t, 10)
	if _, err := s.Append(key("c"), "", "out", make([]byte, 100)); err == nil {
		t.Fatal("append beyond the limit of the file's size succeeded")
	}
	if size, err := s.Size(key("c"), "out"); err != nil || size != 1 {
		t.Errorf("Size after half an append = %d, %v, want 1", size, err)
	}
	if off, err := s.Append(key("c"), "", "out", []byte("yz")); err != nil || off != 1 {
		t.Errorf("Append after it = %d, %v, want 1", off, err)
	}
	p := make([]byte, 3)
	if _, err := s.ReadAt(key("c"), "out", p, 0); err != nil || string(p) != "xyz" {
		t.Errorf("stream holds %q, %v", p, err)
	}
}

func TestSizes(t *testing.T) {
	s := newSpool(t, filepath.Join(t.TempDir(), "spool"), 4)
	for i := range 3 {
		appendTo(t, s, key("two"), fmt.Sprint("stream-", i%2))
	}
	appendTo(t, s, key("gone"), "stdout")
	if err := s.Remove(key("gone")); err != nil {
		t.Fatal(err)
	}
	appendTo(t, s, call.Key{Namespace: "other", ID: "one"}, "stdout")
	sizes := map[call.Key]int64{}
	if err := s.Sizes(t.Context(), func(k call.Key, n int64) { sizes[k] += n }); err != nil {
		t.Fatal(err)
	}
	if len(sizes) != 2 || sizes[key("two")] != 3 || sizes[call.Key{Namespace: "other", ID: "one"}] != 1 {
		t.Errorf("%v", sizes)
	}
}
