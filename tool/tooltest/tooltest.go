// Package tooltest has what the test of a tool gives to a [tool.Call]: a [Recorder] that keeps what the tool reported, and
// [Documents] that take its commands as the engine would. Both behave; neither knows the engine.
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

// A Recorder is a [tool.Reporter] that keeps all. It may be used from many goroutines; the zero value is ready.
type Recorder struct {
	// Err, when set, is what every report answers, as if the call were over.
	Err error
	// Keys, when set, is what is typed into the call; Controls is what the tool takes beside it.
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

// keep runs f alone, unless the call is over.
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

// ProgressTold returns the progress so far, in order.
func (r *Recorder) ProgressTold() []tool.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.progress)
}

// ActivitiesTold returns the activities and their changes, in order: id, type when it is a snapshot, and JSON.
func (r *Recorder) ActivitiesTold() []string {
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

// Checkpoint returns what was saved last: give it to the next attempt's call.
func (r *Recorder) Checkpoint() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.checkpoint)
}

// Artifact returns the bytes of a saved artifact, nil when there is none.
func (r *Recorder) Artifact(name string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.artifacts[name])
}

// Documents are the documents of one run and its thread. It is for one goroutine; the zero value is empty.
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

// Snapshot returns what a call that starts now sees.
func (d *Documents) Snapshot() tool.Documents { return maps.Clone(d.stored) }

// Commit applies the commands of a result, and returns those that lost: the document has another revision than they expect, or
// is no number to add to, or no array to append to.
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
