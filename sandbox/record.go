package sandbox

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// record contains what Sweep needs to know about a run when its daemon has died. Each file contains one record. If the daemon died while it
// overwrote a long record with a shorter one, the rest of the long record may follow the shorter one.
type record struct {
	Boot   string     `json:"boot"`
	Daemon identity   `json:"daemon"`
	Main   identity   `json:"main"`
	Away   []identity `json:"away,omitempty"`
	Tag    string     `json:"tag,omitempty"` // Tag of the run's Spec, cut to longestTag bytes
}

// records manages the record files in a directory. It reuses the file of an ended run, because creating and removing a file takes longer
// than writing it.
type records struct {
	dir  string
	from *origin

	mu   sync.Mutex
	free []*os.File
	ours map[string]bool // paths of the files that are free or in use
}

// A note is the record of one run that has not ended.
type note struct {
	file *os.File   // nil when the run has no record
	away []identity // processes in the record that have moved out of the main process's session
}

const (
	recordSize = 512
	longestTag = 128
	mostFree   = 64
)

func blank() string { return strings.Repeat(" ", recordSize) }

// open returns a file with space reserved for a record. It is called before the process starts, so that nothing starts on a full disk.
func (r *records) open(id string) (*os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		file := r.free[n-1]
		r.free = r.free[:n-1]
		return file, nil
	}
	file, err := os.OpenFile(r.path(id), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := file.WriteString(blank()); err != nil {
		file.Close()
		os.Remove(file.Name())
		return nil, err
	}
	if r.ours == nil {
		r.ours = map[string]bool{}
	}
	r.ours[file.Name()] = true
	return file, nil
}

// putBack takes back the file of a run that left no process.
func (r *records) putBack(file *os.File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.free) < mostFree {
		info, err := file.Stat()
		if err == nil && info.Size() > recordSize {
			err = file.Truncate(recordSize)
		}
		if err == nil {
			_, err = file.WriteAt([]byte(blank()), 0)
		}
		if err == nil {
			r.free = append(r.free, file)
			return
		}
	}
	r.discardLocked(file, true)
}

// discardLocked closes a record file, and with remove deletes it. A later Sweep reads a file that remains.
func (r *records) discardLocked(file *os.File, remove bool) {
	if remove {
		os.Remove(file.Name())
	}
	file.Close()
	delete(r.ours, file.Name())
}

// clear removes the record files that no run uses.
func (r *records) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, file := range r.free {
		r.discardLocked(file, true)
	}
	r.free = nil
}

func (r *records) path(id string) string { return filepath.Join(r.dir, id+".json") }

func (r *records) write(run *run, main identity, away []identity) error {
	text, err := json.Marshal(record{r.from.bootID, r.from.self.identity(), main, away, run.spec.Tag[:min(len(run.spec.Tag), longestTag)]})
	if err != nil {
		return err
	}
	if _, err := run.note.file.WriteAt(text, 0); err != nil {
		return err
	}
	shorter := len(away) < len(run.note.away)
	run.note.away = away
	if !shorter {
		return nil
	}
	return run.note.file.Truncate(int64(len(text)))
}

// note records the processes of a run that have moved to another session. After a crash of the daemon, Sweep finds the other processes by
// session and tag.
func (r *records) note(run *run, found map[int]process) {
	var away []identity
	for _, p := range found {
		if p.session != run.main.pid && !p.dead() {
			away = append(away, p.identity())
		}
	}
	slices.SortFunc(away, func(a, b identity) int { return cmp.Compare(a.PID, b.PID) })
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.note.file != nil && !slices.Equal(away, run.note.away) {
		_ = r.write(run, run.main.identity(), away) // An error is ignored, because Sweep can still use the older record and the tag.
	}
}

// drop frees the record of run. When processes are left, it keeps the record with them for a later Sweep.
func (r *records) drop(run *run, left []process) {
	run.mu.Lock()
	defer run.mu.Unlock()
	var away []identity
	for _, p := range left {
		away = append(away, p.identity())
	}
	if len(away) == 0 || r.write(run, run.main.identity(), away) != nil {
		r.putBack(run.note.file)
	} else {
		r.mu.Lock()
		r.discardLocked(run.note.file, false)
		r.mu.Unlock()
	}
	run.note.file = nil
}

// read returns the records of ended runs, by path. It skips runs that are still active in this or another daemon. When a file does not
// parse, it is blank, or a crash just after the start cut it off. In both cases the tag identifies the processes of the run.
func (r *records) read() (map[string]record, error) {
	paths, err := filepath.Glob(filepath.Join(r.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	active := maps.Clone(r.ours)
	r.mu.Unlock()
	found := map[string]record{}
	for _, path := range paths {
		if active[path] {
			continue
		}
		file, err := os.Open(path)
		if gone(err) {
			continue // The run has ended meanwhile.
		}
		if err != nil {
			return nil, err
		}
		var rec record
		if json.NewDecoder(file).Decode(&rec) != nil || rec.Boot != r.from.bootID {
			rec = record{}
		}
		file.Close()
		if !r.from.foreign(rec.Daemon) {
			found[path] = rec
		}
	}
	return found, nil
}
