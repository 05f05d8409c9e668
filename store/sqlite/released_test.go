package sqlite_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/store/sqlite/faultfs"
)

var update = flag.String("update-released", "", "write the files of this `version` from the journal as it is now")

// TestReleased (P10) opens a journal of each released version, migrates it, and compares its content with the recorded content.
// testdata/<version> has the journal and the recorded content. The files of a version must not change after its release. Before its release
// they may be made again.
func TestReleased(t *testing.T) {
	if *update != "" {
		release(t, filepath.Join("testdata", *update))
	}
	versions, err := filepath.Glob("testdata/*/journal.db.gz")
	if err != nil || len(versions) == 0 {
		t.Fatalf("no journals of released versions: %v", err)
	}
	for _, path := range versions {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "journal.db"), unpack(t, path), 0o600); err != nil {
				t.Fatal(err)
			}
			want := string(unpack(t, filepath.Join(filepath.Dir(path), "state.txt.gz")))
			for range 2 { // The first round migrates the journal, the second round opens it again.
				s := open(t, sqlite.Config{Dir: dir})
				if err := s.Check(t.Context()); err != nil {
					t.Error(err)
				}
				if got := state(t, s); got != want {
					t.Errorf("it says other things than then:\n%s", firstDifference(want, got))
				}
				if id := s.Identity(); !id.Moved || id.Epoch < 3 {
					t.Errorf("identity %+v", id)
				}
				closeStore(t, s)
			}
		})
	}
}

// unpack reads a compressed file.
func unpack(t *testing.T, path string) []byte {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pack(t *testing.T, path string, b []byte) {
	t.Helper()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(b)
	}
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = os.WriteFile(path, packed.Bytes(), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// release writes the files of a version: the journal of the story, closed cleanly.
func release(t *testing.T, to string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	disk, err := faultfs.New(faultfs.Config{Dir: dir, SkipSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	sc := newStory(t, disk, dir)
	sc.run()
	closeStore(t, sc.s)
	b, err := os.ReadFile(filepath.Join(dir, "journal.db"))
	if err == nil {
		err = os.MkdirAll(to, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	pack(t, filepath.Join(to, "journal.db.gz"), b)
	pack(t, filepath.Join(to, "state.txt.gz"), []byte(sc.states[len(sc.states)-1]))
}
