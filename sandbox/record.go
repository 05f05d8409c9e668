package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// record is what Sweep needs to know of a run whose daemon died. A file holds one, with leavings of a longer one behind
// it when the daemon died while it wrote.
type record struct {
	Boot   string     `json:"boot"`
	Daemon identity   `json:"daemon"`
	Main   identity   `json:"main"`
	Away   []identity `json:"away,omitempty"`
}

// openRecord is called before the start: on a full disk nothing is to start. It takes the room that the record needs.
func (r *Runner) openRecord(id string) (*os.File, error) {
	file, err := os.OpenFile(r.recordPath(id), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := file.WriteString(strings.Repeat(" ", 512)); err != nil {
		file.Close()
		os.Remove(file.Name())
		return nil, err
	}
	return file, nil
}

func (r *Runner) recordPath(id string) string { return filepath.Join(r.stateDir, id+".json") }

func (r *Runner) writeRecord(run *run, main identity, away []identity) error {
	text, err := json.Marshal(record{r.bootID, r.self.identity(), main, away})
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
		os.Remove(run.record.Name())
	}
	run.record.Close()
	run.record = nil
}

// readRecords returns the records of runs that are not active, here or in another daemon, by path. What does not parse was cut off by a crash just
// after the start; the tag serves then.
func (r *Runner) readRecords() (map[string]record, error) {
	paths, err := filepath.Glob(filepath.Join(r.stateDir, "*.json"))
	if err != nil {
		return nil, err
	}
	active := map[string]bool{}
	r.mu.Lock()
	for id := range r.runs {
		active[r.recordPath(id)] = true
	}
	r.mu.Unlock()
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
