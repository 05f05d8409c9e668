// Package tooltest helps tests of tools to make a [tool.Call]. A [Recorder] stores the reports of the tool. [Documents] stores documents
// and applies the tool's commands to them by the rules of the engine. Neither needs an engine.
package tooltest

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A Recorder is a [tool.Reporter] that stores all reports. It is safe for concurrent use. The zero value is ready to use.
type Recorder struct {
	// Err, if set, is the error that every report returns. With it a test simulates that the call is over.
	Err error
	// Keys, if set, is the input that a person types into the call. Controls are the controls that the tool passed to Input.
	Keys     io.ReadCloser
	Controls tool.Controls

	mu         sync.Mutex
	progress   []tool.Progress
	activities []string
	output     map[string][]byte
	checkpoint []byte
	artifacts  map[string][]byte
}

var _ tool.Reporter = (*Recorder)(nil)

// keep runs f with the lock held, unless Err is set.
func (r *Recorder) keep(f func()) error {
	if r.Err != nil {
		return r.Err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	return nil
}

// Progress implements [tool.Reporter].
func (r *Recorder) Progress(p tool.Progress) error {
	return r.keep(func() { r.progress = append(r.progress, p) })
}

// Activity implements [tool.Reporter].
func (r *Recorder) Activity(id, activityType, content string) error {
	return r.keep(func() { r.activities = append(r.activities, id+" "+activityType+" "+content) })
}

// ActivityDelta implements [tool.Reporter].
func (r *Recorder) ActivityDelta(id, patch string) error {
	return r.keep(func() { r.activities = append(r.activities, id+" "+patch) })
}

// Output implements [tool.Reporter].
func (r *Recorder) Output(stream string, b []byte) error {
	return r.keep(func() {
		if r.output == nil {
			r.output = map[string][]byte{}
		}
		r.output[stream] = append(r.output[stream], b...)
	})
}

// SaveCheckpoint implements [tool.Reporter].
func (r *Recorder) SaveCheckpoint(b []byte) error {
	return r.keep(func() { r.checkpoint = bytes.Clone(b) })
}

// SaveArtifact implements [tool.Reporter].
func (r *Recorder) SaveArtifact(name, mimeType string, b []byte) (tool.Artifact, error) {
	err := r.keep(func() {
		if r.artifacts == nil {
			r.artifacts = map[string][]byte{}
		}
		r.artifacts[name] = bytes.Clone(b)
	})
	return tool.Artifact{Name: name, MIMEType: mimeType, Size: int64(len(b))}, err
}

// Input implements [tool.Interactor].
func (r *Recorder) Input(c tool.Controls) (io.ReadCloser, error) {
	if r.Keys == nil {
		return nil, tool.ErrNoReporter
	}
	return r.Keys, r.keep(func() { r.Controls = c })
}

// ProgressReports returns the progress reports so far, in order.
func (r *Recorder) ProgressReports() []tool.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.progress)
}

// ActivityReports returns the activities and the changes of activities, in order, one text for each: the id, the type (not for a change) and
// the JSON.
func (r *Recorder) ActivityReports() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.activities)
}

// Stream returns the content of this output stream so far.
func (r *Recorder) Stream(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.output[name])
}

// Checkpoint returns the last checkpoint, for the call of the next attempt.
func (r *Recorder) Checkpoint() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.checkpoint)
}

// Artifact returns the bytes of a saved artifact, or nil when there is none.
func (r *Recorder) Artifact(name string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.artifacts[name])
}

// Documents holds the documents of one run and its thread. It must be used by one goroutine only. The zero value is empty.
type Documents struct {
	stored snapshot
}

type documentKey struct {
	scope tool.Scope
	key   string
}

type snapshot map[documentKey]tool.Document

// Get implements [tool.Documents].
func (s snapshot) Get(scope tool.Scope, key string) (tool.Document, bool, error) {
	d, ok := s[documentKey{scope, key}]
	return d, ok, nil
}

// Snapshot returns the documents as a call that starts now would see them.
func (d *Documents) Snapshot() tool.Documents { return maps.Clone(d.stored) }

// Commit applies the commands of a result and returns those that failed. A command fails in these cases: the command is invalid; the
// document does not have the expected revision; the document of an add is not a number; the document of an append is not an array.
func (d *Documents) Commit(commands ...tool.Command) (lost []tool.Command) {
	if d.stored == nil {
		d.stored = snapshot{}
	}
	for _, c := range commands {
		k := documentKey{c.Scope, c.Key}
		before := d.stored[k]
		value, err := call.Apply(before.Value, &c)
		switch {
		case c.Expected != nil && *c.Expected != before.Revision, err != nil, call.CheckCommand(&c) != nil:
			lost = append(lost, c)
		case c.Op == tool.OpDelete:
			delete(d.stored, k)
		default:
			d.stored[k] = tool.Document{Scope: c.Scope, Key: c.Key, Value: value, Revision: before.Revision + 1}
		}
	}
	return lost
}
