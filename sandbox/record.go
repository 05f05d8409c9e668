package sandbox

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// record is what Sweep needs to know of a run whose daemon died. A file holds one, with leavings of a longer one behind
// it when the daemon died while it wrote.
type record struct {
	Boot   string     `json:"boot"`
	Daemon identity   `json:"daemon"`
	Main   identity   `json:"main"`
	Away   []identity `json:"away,omitempty"`
	Tag    string     `json:"tag,omitempty"` // of its Spec, or the beginning
}

// A shelf keeps the files of records for the runs to come: to make and to remove one takes longer than to write it.
type shelf struct {
	mu   sync.Mutex
	free []*os.File
	ours map[string]bool // paths of those that are free or in use
}

const (
	recordSize = 512
	longestTag = 128
	mostFree   = 64
)

// blank is a record that tells nothing.
func blank() string { return strings.Repeat(" ", recordSize) }

// openRecord is called before the start: on a full disk nothing is to start. It takes the room that the record needs.
func (r *Runner) openRecord(id string) (*os.File, error) {
	r.shelf.mu.Lock()
	defer r.shelf.mu.Unlock()
	if n := len(r.shelf.free); n > 0 {
		file := r.shelf.free[n-1]
		r.shelf.free = r.shelf.free[:n-1]
		return file, nil
	}
	file, err := os.OpenFile(r.recordPath(id), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := file.WriteString(blank()); err != nil {
		file.Close()
		os.Remove(file.Name())
		return nil, err
	}
	if r.shelf.ours == nil {
		r.shelf.ours = map[string]bool{}
	}
	r.shelf.ours[file.Name()] = true
	return file, nil
}

// shelve takes a record back that nothing is left of.
func (r *Runner) shelve(file *os.File) {
	r.shelf.mu.Lock()
	defer r.shelf.mu.Unlock()
	if len(r.shelf.free) < mostFree {
		info, err := file.Stat()
		if err == nil && info.Size() > recordSize {
			err = file.Truncate(recordSize)
		}
		if err == nil {
			_, err = file.WriteAt([]byte(blank()), 0)
		}
		if err == nil {
			r.shelf.free = append(r.shelf.free, file)
			return
		}
	}
	r.discardLocked(file, true)
}

// discardLocked gives a record up; what is not removed is for a later Sweep.
func (r *Runner) discardLocked(file *os.File, remove bool) {
	if remove {
		os.Remove(file.Name())
	}
	file.Close()
	delete(r.shelf.ours, file.Name())
}

// clearShelf removes the records that no run has.
func (r *Runner) clearShelf() {
	r.shelf.mu.Lock()
	defer r.shelf.mu.Unlock()
	for _, file := range r.shelf.free {
		r.discardLocked(file, true)
	}
	r.shelf.free = nil
}

func (r *Runner) recordPath(id string) string { return filepath.Join(r.stateDir, id+".json") }

func (r *Runner) writeRecord(run *run, main identity, away []identity) error {
	text, err := json.Marshal(record{r.bootID, r.self.identity(), main, away, run.spec.Tag[:min(len(run.spec.Tag), longestTag)]})
	if err != nil {
		return err
	}
	if _, err := run.record.WriteAt(text, 0); err != nil {
		return err
	}
	shorter := len(away) < len(run.noted)
	run.noted = away
	if !shorter {
		return nil
	}
	return run.record.Truncate(int64(len(text)))
}

// dropRecord ends the record of run, or leaves in it what a later Sweep is to try again.
func (r *Runner) dropRecord(run *run, left []process) {
	run.mu.Lock()
	defer run.mu.Unlock()
	var away []identity
	for _, p := range left {
		away = append(away, p.identity())
	}
	if len(away) == 0 || r.writeRecord(run, run.main.identity(), away) != nil {
		r.shelve(run.record)
	} else {
		r.shelf.mu.Lock()
		r.discardLocked(run.record, false)
		r.shelf.mu.Unlock()
	}
	run.record = nil
}

// readRecords returns the records of runs that are not active, here or in another daemon, by path. What does not parse is a blank file that was to
// serve again, or was cut off by a crash just after the start; the tag serves then.
func (r *Runner) readRecords() (map[string]record, error) {
	paths, err := filepath.Glob(filepath.Join(r.stateDir, "*.json"))
	if err != nil {
		return nil, err
	}
	r.shelf.mu.Lock()
	active := maps.Clone(r.shelf.ours)
	r.shelf.mu.Unlock()
	records := map[string]record{}
	for _, path := range paths {
		if active[path] {
			continue
		}
		file, err := os.Open(path)
		if gone(err) {
			continue // its run ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		var rec record
		if json.NewDecoder(file).Decode(&rec) != nil || rec.Boot != r.bootID {
			rec = record{}
		}
		file.Close()
		if !r.foreign(rec.Daemon) {
			records[path] = rec
		}
	}
	return records, nil
}
