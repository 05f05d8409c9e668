package worker

import (
	"context"
	"encoding/json"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Call is one attempt of one call, and the way to report about it. Reporting waits for no watcher; while the worker has no
// connection it waits for that.
type Call struct {
	*tooldv1.WorkerCall
	job *job
}

func (c *Call) report(r *tooldv1.WorkerReport) {
	if c.job == nil {
		return // in a test of the function
	}
	r.LeaseId = c.job.lease
	m := &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Report{Report: r}}
	if err := fits(m); err != nil {
		c.job.w.cfg.Log("report not sent: " + err.Error())
		return
	}
	c.job.say(c.job.ctx, m)
}

// Progress reports how far the tool is. Fraction runs from 0 to 1.
func (c *Call) Progress(fraction float64, message string) {
	c.report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_Progress{Progress: &tooldv1.Progress{
		Status: tooldv1.ProgressStatus_PROGRESS_STATUS_RUNNING, Fraction: fraction, Message: readable(message),
	}}})
}

// Activity replaces what an activity shows. It panics when content has no JSON form.
func (c *Call) Activity(id, activityType string, content any) {
	c.report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_ActivitySnapshot{ActivitySnapshot: &tooldv1.ActivitySnapshot{
		ActivityId: id, ActivityType: activityType, Content: mustJSON(content),
	}}})
}

// ActivityDelta changes an activity by a list of RFC 6902 operations.
func (c *Call) ActivityDelta(id string, patch any) {
	c.report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_ActivityDelta{ActivityDelta: &tooldv1.ActivityDelta{ActivityId: id, Patch: mustJSON(patch)}}})
}

// Output appends to one of the call's streams, such as stdout.
func (c *Call) Output(stream string, b []byte) {
	const piece = 512 << 10
	for len(b) > 0 {
		n := min(piece, len(b))
		c.report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_Output{Output: &tooldv1.Output{Stream: stream, Data: append([]byte(nil), b[:n]...)}}})
		b = b[n:]
	}
}

// SaveCheckpoint keeps b for the next attempt ([Call.GetCheckpoint]). What the function did before it, it must not do again. When it
// returns nil the checkpoint is in the journal.
func (c *Call) SaveCheckpoint(ctx context.Context, b []byte) error {
	if c.job == nil {
		return nil
	}
	_, err := c.job.save(ctx, &tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_Checkpoint{Checkpoint: b}})
	return err
}

// SaveArtifact stores what is too big for a result, at most 4 MiB, and returns the name under which it is kept: a Content of the result names it
// as its artifact.
func (c *Call) SaveArtifact(ctx context.Context, name, mimeType string, b []byte) (string, error) {
	if c.job == nil {
		return name, nil
	}
	return c.job.save(ctx, &tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_Artifact{Artifact: &tooldv1.WorkerArtifact{Name: name, MimeType: mimeType, Data: b}}})
}

// Resumed reports whether an answer started this attempt, and stores it in into.
func (c *Call) Resumed(into any) (bool, error) {
	r := c.GetResume()
	if r == nil {
		return false, nil
	}
	if r.GetResult() == "" || into == nil {
		return true, nil
	}
	return true, json.Unmarshal([]byte(r.GetResult()), into)
}

// Document stores the value of a document of the call in into, and returns its revision; 0 when there is none. The tool names its
// documents in [Tool.Documents].
func (c *Call) Document(scope tooldv1.DocumentScope, key string, into any) (int64, error) {
	for _, d := range c.GetDocuments() {
		if d.GetScope() == scope && d.GetKey() == key {
			return d.GetRevision(), json.Unmarshal([]byte(d.GetValue()), into)
		}
	}
	return 0, nil
}

// readable is a text with the bytes replaced that are no UTF-8.
func readable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("worker: no JSON form: " + err.Error())
	}
	return string(b)
}
