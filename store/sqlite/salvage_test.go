package sqlite_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/spool"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/store/sqlite/faultfs"
)

// A soundJournal is the file of a journal that was closed cleanly, and the 300 calls that the journal contains.
type soundJournal struct {
	file []byte
	want map[string]*call.Call
}

func newSoundJournal(t *testing.T) soundJournal {
	t.Helper()
	dir, want := t.TempDir(), map[string]*call.Call{}
	disk, err := faultfs.New(faultfs.Config{Dir: dir, SkipSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	s := open(t, sqlite.Config{Dir: dir})
	for n := range 300 {
		c := newCall(fmt.Sprintf("c%03d", n))
		c.Requested = fmt.Sprintf("%q", strings.Repeat(c.ID, 1+n%60))
		if n%4 == 1 { // This call goes into a pack.
			c.Class, c.Status, c.Ended = call.Behind, call.Succeeded, s.Now().Time()
		}
		change := creation(c)
		commit(t, s, change)
		for n%3 == 0 && !c.Status.Terminal() && (c.Status != call.Suspended || n%2 == 0) {
			commit(t, s, advance(c, n))
		}
		want[c.ID] = c
	}
	closeStore(t, s)
	b, err := os.ReadFile(filepath.Join(dir, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	return soundJournal{b, want}
}

// damagedCopy writes the journal to a new directory, applies the damage and adds some output of a call.
func (j soundJournal) damagedCopy(t *testing.T, damage func(b []byte)) (dir string, want map[string]*call.Call) {
	t.Helper()
	dir = t.TempDir()
	out, err := spool.New(spool.Config{Dir: filepath.Join(dir, "spool")})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := out.Append(key("c000"), "", "stdout", []byte("printed")); err != nil {
		t.Fatal(err)
	}
	b := bytes.Clone(j.file)
	damage(b)
	if err := os.WriteFile(filepath.Join(dir, "journal.db"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, j.want
}

// salvaged salvages a damaged journal and checks the result. Each call is unchanged, refused, or a tombstone, and the report says which.
func salvaged(t *testing.T, name string, src string, want map[string]*call.Call) (saved *sqlite.Salvaged, whole int) {
	t.Helper()
	before := contents(t, src)
	dst := filepath.Join(t.TempDir(), "saved")
	disk, err := faultfs.New(faultfs.Config{Dir: dst, SkipSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	saved, err = sqlite.Salvage(t.Context(), src, dst)
	if err != nil {
		t.Fatalf("%s: Salvage = %v", name, err)
	}
	if contents(t, src) != before {
		t.Errorf("%s: the damaged journal was changed", name)
	}
	if left, err := filepath.Glob(filepath.Join(dst, "damaged*")); err != nil || len(left) > 0 {
		t.Errorf("%s: %v was left", name, left)
	}
	s := open(t, sqlite.Config{Dir: dst})
	if id := s.Identity(); !id.Moved || id.Clean {
		t.Errorf("%s: identity %+v, want moved and not clean", name, id)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	for id, c := range want {
		got, err := s.Call(t.Context(), key(id))
		refused, lost := slices.Contains(saved.Refused, key(id)), slices.Contains(saved.Lost, key(id))
		log, _, logErr := s.Events(t.Context(), key(id), 0, 100)
		switch {
		case err == nil && (got.Requested != c.Requested || got.Status != c.Status || got.Revision != c.Revision):
			t.Fatalf("%s: %s is %+v, was %+v", name, id, got, c)
		case err == nil && logErr == nil && int64(len(log)) == c.LastSequence && !refused && !lost:
			whole++
		case err == nil && refused, errors.Is(err, store.ErrCorrupt) && refused, errors.Is(err, store.ErrTrimmed) && lost:
		case errors.Is(err, store.ErrNotFound) && slices.Contains(damaged(saved), tableOf(c)):
		default:
			t.Errorf("%s: %s: %v, %d events %v, refused %t, lost %t", name, id, err, len(log), logErr, refused, lost)
		}
		for i, ev := range log {
			if ev.Sequence != int64(i+1) {
				t.Errorf("%s: event %d of %s has number %d", name, i+1, id, ev.Sequence)
			}
		}
	}
	if err := s.Commit(t.Context(), creation(newCall("later"))); err != nil {
		t.Errorf("%s: Commit = %v", name, err)
	}
	page, err := s.Calls(t.Context(), call.Query{Namespace: "ns", Limit: 500})
	if err != nil || len(page.Calls) < whole {
		t.Errorf("%s: %d calls are listed, %v; %d are whole", name, len(page.Calls), err, whole)
	}
	if out, err := s.Spool().Size(key("c000"), "stdout"); err != nil || out != 7 {
		t.Errorf("%s: output = %d bytes, %v", name, out, err)
	}
	closeStore(t, s)
	return saved, whole
}

// The types of the pages of a journal that hold rows and index entries.
const (
	indexLeaf = 10
	tableLeaf = 13
)

// page returns the page of a type that contains a text.
func page(t *testing.T, b []byte, kind byte, text string) []byte {
	t.Helper()
	for p := range slices.Chunk(b, 8192) {
		if p[0] == kind && bytes.Contains(p, []byte(text)) {
			return p
		}
	}
	t.Fatalf("no page of type %d with %s", kind, text)
	return nil
}

// damaged returns the names of the tables that the report calls damaged.
func damaged(saved *sqlite.Salvaged) (names []string) {
	for _, t := range saved.Tables {
		if t.Damaged {
			names = append(names, t.Name)
		}
	}
	return names
}

// tableOf returns the table that has a call of a soundJournal.
func tableOf(c *call.Call) string {
	if c.Class == call.Behind {
		return "packs"
	}
	return "calls"
}

func contents(t *testing.T, dir string) (all string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "lock" {
			var b []byte
			b, err = os.ReadFile(filepath.Join(dir, path))
			all += path + string(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSalvage (P9) checks that Salvage saves the data of a damaged journal that can be read, and reports the lost calls.
func TestSalvage(t *testing.T) {
	j := newSoundJournal(t)
	t.Run("sound", func(t *testing.T) {
		dir, want := j.damagedCopy(t, func([]byte) {})
		saved, whole := salvaged(t, "sound", dir, want)
		if whole != 300 || len(saved.Refused)+len(saved.Lost)+len(damaged(saved)) > 0 || saved.Files == 0 {
			t.Errorf("%d whole calls, %+v", whole, saved)
		}
	})
	t.Run("bytes of the header", func(t *testing.T) {
		for at := int(powerSeed(t) % 8); at < 100; at += 8 {
			dir, want := j.damagedCopy(t, func(b []byte) { b[at] ^= 0xff })
			if saved, whole := salvaged(t, fmt.Sprint("byte ", at), dir, want); whole != 300 || len(damaged(saved)) > 0 {
				t.Errorf("byte %d: %d whole calls, %+v", at, whole, saved)
			}
		}
	})
	t.Run("the first page", func(t *testing.T) {
		dir, want := j.damagedCopy(t, func(b []byte) { clear(b[100:8192]) })
		if saved, whole := salvaged(t, "first page", dir, want); whole != 300 || len(damaged(saved)) > 0 {
			t.Errorf("%d whole calls, %+v", whole, saved)
		}
	})
	t.Run("a record", func(t *testing.T) {
		dir, want := j.damagedCopy(t, func([]byte) {})
		script(t, dir, "UPDATE calls SET record = CAST('x' AS BLOB) WHERE call_id = 'c007'; DELETE FROM events WHERE first = 2 AND call = (SELECT position FROM calls WHERE call_id = 'c006')")
		saved, whole := salvaged(t, "record", dir, want)
		if whole != 298 || !slices.Equal(saved.Refused, []call.Key{key("c006"), key("c007")}) {
			t.Errorf("%d whole calls, %+v", whole, saved)
		}
	})
	t.Run("an id and the index of ids", func(t *testing.T) {
		dir, want := j.damagedCopy(t, func(b []byte) {
			clear(page(t, b, indexLeaf, "nsc007"))
			row := page(t, b, tableLeaf, "nsc007")
			row[bytes.Index(row, []byte("nsc007"))] ^= 1
		})
		if saved, whole := salvaged(t, "id", dir, want); whole != 299 || !slices.Equal(damaged(saved), []string{"calls"}) {
			t.Errorf("%d whole calls, %+v", whole, saved)
		}
	})
	t.Run("the number of rows of a page", func(t *testing.T) { // SQLite reads such pages without an error.
		dir, want := j.damagedCopy(t, func(b []byte) {
			page(t, b, indexLeaf, "nsc299")[4]--
			page(t, b, tableLeaf, "nsc299")[4]--
		})
		if saved, whole := salvaged(t, "number", dir, want); whole != 299 || !slices.Equal(damaged(saved), []string{"calls"}) {
			t.Errorf("%d whole calls, %+v", whole, saved)
		}
	})
	t.Run("random pages", func(t *testing.T) {
		seed := powerSeed(t)
		random := rand.New(rand.NewPCG(seed, 3))
		least, lost, refused := 300, 0, 0
		for n := range 20 {
			dir, want := j.damagedCopy(t, func(b []byte) {
				for range 1 + n%3 {
					page := b[8192*random.IntN(len(b)/8192):][:8192]
					switch random.IntN(3) {
					case 0:
						clear(page)
					case 1:
						page[random.IntN(len(page))] ^= 1 << random.IntN(8)
					default:
						for i := range 1024 {
							binary.BigEndian.PutUint64(page[8*i:], random.Uint64())
						}
					}
				}
			})
			saved, whole := salvaged(t, fmt.Sprintf("seed %d, copy %d", seed, n), dir, want)
			least, lost, refused = min(least, whole), lost+len(saved.Lost), refused+len(saved.Refused)
		}
		t.Logf("ran: salvage: 20 journals of 300 calls with up to 3 broken pages: the worst kept %d, in all %d refused and %d lost; seed %d", least, refused, lost, seed)
	})
}

func TestSalvageRefuses(t *testing.T) {
	j := newSoundJournal(t)
	dir, _ := j.damagedCopy(t, func([]byte) {})
	if _, err := sqlite.Salvage(t.Context(), dir, dir); err == nil {
		t.Error("into itself")
	}
	s := open(t, sqlite.Config{Dir: dir})
	if _, err := sqlite.Salvage(t.Context(), dir, t.TempDir()); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("of a journal in use: %v", err)
	}
	closeStore(t, s)
	script(t, dir, "PRAGMA user_version = 9")
	if _, err := sqlite.Salvage(t.Context(), dir, t.TempDir()); !errors.Is(err, sqlite.ErrNewer) {
		t.Errorf("of a newer release's: %v", err)
	}
}
