package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

const (
	trash       = "trash" // directory for removed call directories
	removedName = "gone"  // name of a removed call directory inside its temporary directory
	owner       = "call"  // file that names the owner of a call directory
)

// open opens the file of a stream. If create is true, it also creates the file and the directory of the call. The caller holds st.mu.
func (s *Spool) open(st *stream, create bool, thread string) error {
	if st.file != nil {
		return nil
	}
	path := s.path(st.key, st.name)
	flags := os.O_RDWR | os.O_APPEND
	f, err := os.OpenFile(path, flags, 0)
	for create && errors.Is(err, fs.ErrNotExist) { // Try again, because Remove may delete the directory between mkdir and OpenFile.
		if err = s.mkdir(st.key, thread); err == nil {
			f, err = os.OpenFile(path, flags|os.O_CREATE, 0o600)
		}
	}
	if err != nil {
		return full(notFound(err))
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	st.file, st.size = f, info.Size()
	return nil
}

// mkdir creates the directory of a call. Other goroutines see it only once it contains the owner file.
func (s *Spool) mkdir(key call.Key, thread string) error {
	dir := s.dir(key)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), "new-")
	if err != nil {
		return err
	}
	b, err := json.Marshal(owned{key, thread})
	if err == nil {
		err = os.WriteFile(filepath.Join(made, owner), b, 0o600)
	}
	if err == nil {
		err = os.Rename(made, dir)
	}
	if err != nil {
		os.RemoveAll(made)
		if errors.Is(err, fs.ErrExist) {
			return nil // Another stream of the call has created the directory. If Remove deletes it now, open tries again.
		}
	}
	return err
}

// Append adds b to a stream and returns the offset at which b begins.
func (s *Spool) Append(key call.Key, thread, name string, b []byte) (offset int64, err error) {
	if err := s.ledger.Take(key, thread, int64(len(b))); err != nil {
		return 0, err
	}
	err = s.use(key, thread, name, true, func(st *stream) error {
		offset = st.size
		n, err := st.file.Write(b)
		if err == nil {
			st.size += int64(n)
			return nil
		}
		// Undo a partial write, so that the offsets of later appends are right.
		if n > 0 {
			if cut := st.file.Truncate(offset); cut != nil {
				err = errors.Join(err, cut, st.file.Close())
				st.file = nil // Make the next append open the file again, so that it uses the real size.
			}
		}
		return full(err)
	})
	if err != nil {
		s.ledger.Add(key, thread, -int64(len(b)))
	}
	return offset, err
}

// ReadAt reads from a stream like io.ReaderAt.
func (s *Spool) ReadAt(key call.Key, name string, p []byte, off int64) (n int, err error) {
	err = s.use(key, "", name, false, func(st *stream) error {
		n, err = st.file.ReadAt(p, off)
		return err
	})
	return n, err
}

// Size returns how many bytes a stream has.
func (s *Spool) Size(key call.Key, name string) (size int64, err error) {
	err = s.use(key, "", name, false, func(st *stream) error {
		size = st.size
		return nil
	})
	return size, err
}

// Remove deletes all streams of a call. An append that runs at the same time may begin a new stream.
func (s *Spool) Remove(key call.Key) error {
	if s.isClosed() {
		return store.ErrClosed
	}
	// Move the directory before closing the streams. Bytes that are appended in between go to the removed files.
	away, err := s.discard(s.dir(key))
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.streams[key]))
	s.mu.Unlock()
	for _, st := range open {
		s.retire(st)
	}
	if err != nil || away == "" {
		return err
	}
	if s.ledger != nil {
		if of, bytes, err := held(filepath.Join(away, removedName)); err == nil {
			s.ledger.Add(key, of.Thread, -bytes)
		}
	}
	return os.RemoveAll(away)
}

func (s *Spool) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// discard moves a directory to the trash. It returns the directory in which it now is, or "" when it did not exist.
func (s *Spool) discard(dir string) (string, error) {
	bin := filepath.Join(s.cfg.Dir, trash)
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return "", err
	}
	away, err := os.MkdirTemp(bin, "")
	if err != nil {
		return "", err
	}
	if err := os.Rename(dir, filepath.Join(away, removedName)); err != nil {
		os.RemoveAll(away)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", err
	}
	return away, nil
}

// Sweep removes the streams of calls for which keep returns false. It also removes incomplete directories that a crash left. It counts the
// remaining output. Call it at start, before calls run.
func (s *Spool) Sweep(keep func(call.Key) (bool, error)) (removed int, err error) {
	if s.ledger != nil {
		s.ledger.Reset(map[string]int64{}, map[store.ThreadKey]int64{})
	}
	err = s.calls(func(dir string) error {
		swept, err := s.sweep(dir, keep)
		if swept {
			removed++
		}
		return err
	})
	s.counted = err == nil
	return removed, err
}

// calls visits the directories of calls.
func (s *Spool) calls(visit func(dir string) error) error {
	fans, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	for _, fan := range fans {
		if _, err := strconv.ParseUint(fan.Name(), 16, 8); err != nil || !fan.IsDir() {
			continue // The spool did not create this entry.
		}
		dirs, err := os.ReadDir(filepath.Join(s.cfg.Dir, fan.Name()))
		if err != nil {
			return err
		}
		for _, d := range dirs {
			if err := visit(filepath.Join(s.cfg.Dir, fan.Name(), d.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sizes implements [store.SpoolSizer]. It may miss calls that are removed meanwhile.
func (s *Spool) Sizes(ctx context.Context, visit func(call.Key, int64)) error {
	return s.calls(func(dir string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		of, bytes, err := held(dir)
		if err != nil {
			return nil //nolint:nilerr // It was removed meanwhile, or it is what a crash left half made
		}
		visit(of.Key, bytes)
		return nil
	})
}

func (s *Spool) sweep(dir string, keep func(call.Key) (bool, error)) (bool, error) {
	of, bytes, err := held(dir)
	if err == nil && s.dir(of.Key) == dir {
		s.ledger.Add(of.Key, of.Thread, bytes)
		if ok, err := keep(of.Key); ok || err != nil {
			return false, err
		}
		return true, s.Remove(of.Key)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	return true, os.RemoveAll(dir)
}

func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}
