package lifecycle

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/hooks"
	"github.com/toold-dev/toold/lifecycle/input"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// reporter passes the reports of a running tool to the log of its call. It drops and counts reports that come after the attempt.
type reporter struct {
	p      *pipeline
	closed atomic.Bool

	// order keeps the pieces of one call of the method Output together. The method holds it while it writes to the spool, which may take
	// long. No other code may wait for it.
	order sync.Mutex

	keys atomic.Pointer[input.Keyboard] // nil when the tool takes no input
}

func (r *reporter) close() {
	r.closed.Store(true)
	r.hangUp()
}

// hangUp closes the tool's input.
func (r *reporter) hangUp() {
	if k := r.keys.Load(); k != nil {
		k.Close()
	}
}

func (r *reporter) publish(ev call.Event) error {
	if r.closed.Load() {
		r.p.l.e.stats.late.Add(1)
		return errEnded
	}
	return r.p.l.emit(ev)
}

// maxReport bounds the content of one progress or activity event, in bytes.
const maxReport = 256 << 10

func (r *reporter) report(ev call.Event) error {
	if n := ev.Weight(); n > maxReport {
		return tool.Errorf(tool.InvalidArguments, "a report of %d bytes; at most %d are accepted", n, maxReport)
	}
	return r.publish(ev)
}

func (r *reporter) Progress(p tool.Progress) error {
	p.Status, p.Message = tool.ProgressStatus(calllog.Readable(string(p.Status))), calllog.Readable(p.Message)
	return r.report(call.Event{Type: call.EventProgress, Progress: &p})
}

func (r *reporter) Activity(id, activityType, content string) error {
	return r.report(call.Event{Type: call.EventActivitySnapshot, Activity: &call.Activity{ID: calllog.Readable(id), Type: calllog.Readable(activityType), Content: calllog.Readable(content)}})
}

func (r *reporter) ActivityDelta(id, patch string) error {
	return r.report(call.Event{Type: call.EventActivityDelta, Activity: &call.Activity{ID: calllog.Readable(id), Patch: calllog.Readable(patch)}})
}

// outputPiece is the maximum size of one output event, in bytes. It is small enough that each event fits into a frame.
const outputPiece = 64 << 10

func (r *reporter) Output(stream string, b []byte) error {
	if err := calllog.CheckName(stream); err != nil {
		return err
	}
	r.p.l.e.stats.outputBytes.Add(int64(len(b)))
	r.order.Lock()
	defer r.order.Unlock()
	for piece := range slices.Chunk(b, outputPiece) {
		// Clone the piece, because the tool may reuse its buffer.
		err := r.publish(call.Event{Type: call.EventOutput, Output: &call.Output{Stream: stream, Bytes: slices.Clone(piece)}})
		if err != nil {
			return err
		}
	}
	return nil
}

// SaveCheckpoint stores a checkpoint. It returns after the journal has stored it.
func (r *reporter) SaveCheckpoint(b []byte) error {
	if r.closed.Load() {
		return errEnded
	}
	if err := gating.CheckCheckpoint(b); err != nil {
		return err
	}
	if err := r.p.l.intake.takeCheckpoint(len(b)); err != nil {
		return err
	}
	kept := append([]byte(nil), b...)
	return r.p.l.commit(step{
		apply: func(c *call.Call) {
			if n := len(c.Attempts); n > 0 && !bytes.Equal(kept, c.Checkpoint) {
				c.Attempts[n-1].Saved = true
			}
			c.Checkpoint = kept
		},
		durability: store.Full,
	})
}

func (r *reporter) SaveArtifact(name, mimeType string, b []byte) (tool.Artifact, error) {
	if r.closed.Load() {
		return tool.Artifact{}, errEnded
	}
	if err := calllog.CheckName(name); err != nil {
		return tool.Artifact{}, err
	}
	if !r.p.scrubber().Scrub(func(s hook.Scrubber) { b = s.Artifact(mimeType, b) }) {
		b = []byte(hooks.NotShown)
	}
	name, err := r.p.l.intake.save(name, b)
	if err != nil {
		return tool.Artifact{}, err
	}
	return tool.Artifact{Name: name, MIMEType: mimeType, Size: int64(len(b))}, nil
}
