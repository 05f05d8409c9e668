package tool_test

import (
	"errors"
	"testing"

	"github.com/toold-dev/toold/tool"
)

// recorder stores the reports of a tool as text.
type recorder struct {
	reports []string
	err     error
}

func (r *recorder) report(s string) error {
	r.reports = append(r.reports, s)
	return r.err
}

func (r *recorder) Progress(p tool.Progress) error {
	return r.report("progress " + string(p.Status) + " " + p.Message)
}
func (r *recorder) Activity(id, typ, content string) error {
	return r.report("activity " + id + " " + typ + " " + content)
}
func (r *recorder) ActivityDelta(id, patch string) error {
	return r.report("delta " + id + " " + patch)
}
func (r *recorder) Output(stream string, b []byte) error {
	return r.report("output " + stream + " " + string(b))
}
func (r *recorder) SaveCheckpoint(b []byte) error { return r.report("checkpoint " + string(b)) }
func (r *recorder) SaveArtifact(name, mimeType string, b []byte) (tool.Artifact, error) {
	return tool.Artifact{Name: name, MIMEType: mimeType, Size: int64(len(b))}, r.report("artifact " + name)
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value int    `json:"value"`
}

func TestReporting(t *testing.T) {
	over := errors.New("call is over")
	r := &recorder{err: over}
	c := &tool.Call{Reporter: r}
	one := operation{"add", "/n", 1}
	tests := []struct {
		name   string
		report func() error
		want   string
	}{
		{"progress", func() error { return c.Progress(tool.ProgressRunning, 0.5, "half") }, "progress running half"},
		{"activity", func() error { return c.Activity("a", "plan", map[string]int{"n": 1}) }, `activity a plan {"n":1}`},
		{"one operation is a list of one", func() error { return c.ActivityDelta("a", one) }, `delta a [{"op":"add","path":"/n","value":1}]`},
		{"operations", func() error { return c.ActivityDelta("a", []operation{one}) }, `delta a [{"op":"add","path":"/n","value":1}]`},
		{"output", func() error { return c.Output("stdout", []byte("hi")) }, "output stdout hi"},
		{"checkpoint", func() error { return c.SaveCheckpoint([]byte("3")) }, "checkpoint 3"},
		{"artifact", func() error { _, err := c.SaveArtifact("a.png", "image/png", []byte{1}); return err }, "artifact a.png"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.report(); !errors.Is(err, over) {
				t.Errorf("error = %v, want the reporter's", err)
			}
			if len(r.reports) != i+1 || r.reports[i] != tt.want {
				t.Errorf("reports %q, want %q", r.reports, tt.want)
			}
		})
	}
}

func TestReportingRefusesWhatHasNoJSONForm(t *testing.T) {
	r := &recorder{}
	c := &tool.Call{Reporter: r}
	if err := c.Activity("a", "plan", make(chan int)); err == nil {
		t.Error("Activity took a channel")
	}
	if err := c.ActivityDelta("a", make(chan int)); err == nil {
		t.Error("ActivityDelta took a channel")
	}
	if len(r.reports) != 0 {
		t.Errorf("reports %q", r.reports)
	}
}

// The test checks that a call without a reporter drops reports, and returns an error when the tool stores data.
func TestReportingWithoutReporter(t *testing.T) {
	c := &tool.Call{}
	for name, err := range map[string]error{
		"progress": c.Progress(tool.ProgressDone, 1, ""),
		"activity": c.Activity("a", "plan", 1),
		"delta":    c.ActivityDelta("a", operation{}),
		"output":   c.Output("stdout", nil),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.SaveCheckpoint(nil); !errors.Is(err, tool.ErrNoReporter) {
		t.Errorf("SaveCheckpoint = %v, want ErrNoReporter", err)
	}
	if _, err := c.SaveArtifact("a", "", nil); !errors.Is(err, tool.ErrNoReporter) {
		t.Errorf("SaveArtifact = %v, want ErrNoReporter", err)
	}
}
