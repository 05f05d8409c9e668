package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Call is one attempt of one call. Its methods send reports to the daemon. A report is queued, so it does not wait for watchers. When the
// queue is full, for example without a connection, a report waits.
type Call struct {
	*tooldv1.WorkerCall
	job *job
}

func (c *Call) report(r *tooldv1.WorkerReport) {
	if c.job == nil {
		return // A unit test calls the function without a job.
	}
	r.LeaseId = c.job.lease
	m := &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Report{Report: r}}
	if err := fits(m); err != nil {
		c.job.w.cfg.Log("report not sent: " + err.Error())
		return
	}
	c.job.say(c.job.ctx, m)
}

// Progress reports how far the running tool has come. fraction is from 0 to 1; 0 means unknown.
func (c *Call) Progress(fraction float64, message string) {
	c.ReportProgress(&tooldv1.Progress{Fraction: fraction, Message: message})
}

// ReportProgress reports how far the tool has come, as a fraction or as amounts, and with any status. Without a status, the tool is
// running. If the fraction is not between 0 and 1, or an amount is negative, the report is logged and not sent.
func (c *Call) ReportProgress(p *tooldv1.Progress) {
	sent := &tooldv1.Progress{
		Status:   cmp.Or(p.GetStatus(), tooldv1.ProgressStatus_PROGRESS_STATUS_RUNNING),
		Fraction: p.GetFraction(), Message: readable(p.GetMessage()), Loaded: p.GetLoaded(), Total: p.GetTotal(),
	}
	if !(sent.Fraction >= 0 && sent.Fraction <= 1) || sent.Loaded < 0 || sent.Total < 0 {
		if c.job != nil {
			c.job.w.cfg.Log(fmt.Sprintf("report not sent: progress of %v, %d of %d", sent.Fraction, sent.Loaded, sent.Total))
		}
		return
	}
	c.report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_Progress{Progress: sent}})
}

// Activity replaces the content of an activity. It panics when content cannot be marshalled to JSON.
func (c *Call) Activity(id, activityType string, content any) {
	c.report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_ActivitySnapshot{ActivitySnapshot: &tooldv1.ActivitySnapshot{
		ActivityId: id, ActivityType: activityType, Content: mustJSON(content),
	}}})
}

// ActivityDelta changes an activity with a list of RFC 6902 (JSON Patch) operations.
func (c *Call) ActivityDelta(id string, patch any) {
	c.report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_ActivityDelta{ActivityDelta: &tooldv1.ActivityDelta{ActivityId: id, Patch: mustJSON(patch)}}})
}

// Output appends to one of the call's output streams, such as stdout.
func (c *Call) Output(stream string, b []byte) {
	const piece = 512 << 10
	for len(b) > 0 {
		n := min(piece, len(b))
		c.report(&tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_Output{Output: &tooldv1.Output{Stream: stream, Data: append([]byte(nil), b[:n]...)}}})
		b = b[n:]
	}
}

// SaveCheckpoint stores b for the next attempt, which reads it with [Call.GetCheckpoint]. The next attempt must not repeat the work done
// before the checkpoint. When SaveCheckpoint returns nil, the checkpoint is in the journal.
func (c *Call) SaveCheckpoint(ctx context.Context, b []byte) error {
	if c.job == nil {
		return nil
	}
	_, err := c.job.save(ctx, &tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_Checkpoint{Checkpoint: b}})
	return err
}

// SaveArtifact stores data that is too large for a result, at most 4 MiB. It returns the stored name. A Content of the result refers to the
// artifact by this name.
func (c *Call) SaveArtifact(ctx context.Context, name, mimeType string, b []byte) (string, error) {
	if c.job == nil {
		return name, nil
	}
	return c.job.save(ctx, &tooldv1.WorkerReport{Report: &tooldv1.WorkerReport_Artifact{Artifact: &tooldv1.WorkerArtifact{Name: name, MimeType: mimeType, Data: b}}})
}

// Resumed reports whether this attempt started because of an answer. If so, it stores the answer in into.
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

// Document stores the value of one of the call's documents in into and returns its revision. It returns 0 when there is no such document.
// [Tool.Documents] must name the document.
func (c *Call) Document(scope tooldv1.DocumentScope, key string, into any) (int64, error) {
	for _, d := range c.GetDocuments() {
		if d.GetScope() == scope && d.GetKey() == key {
			return d.GetRevision(), json.Unmarshal([]byte(d.GetValue()), into)
		}
	}
	return 0, nil
}

// readable replaces the bytes of s that are not valid UTF-8.
func readable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("worker: no JSON form: " + err.Error())
	}
	return string(b)
}
