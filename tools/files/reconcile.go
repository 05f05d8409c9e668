package files

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/toold-dev/toold/tool"
)

// checkpoint is saved before a file is replaced. After a crash, Reconcile compares it with the file to find out what happened.
type checkpoint struct {
	Path   string `json:"path"` // path after all symbolic links were followed
	Before string `json:"before,omitempty"`
	After  string `json:"after"`
}

func mark(call *tool.Call, actual, before, after string) error {
	b, err := json.Marshal(checkpoint{exact(actual), before, after})
	if err != nil {
		return err
	}
	if err := call.SaveCheckpoint(b); err != nil && !errors.Is(err, tool.ErrNoReporter) {
		return err
	}
	return nil
}

// Reconcile implements [tool.Reconciler]. When the file has the new content, the call has succeeded. When the file has the old content, the
// call has not run. With any other content the outcome is unknown.
func (t *mutation) Reconcile(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	var c checkpoint
	if len(call.Checkpoint) == 0 || json.Unmarshal(call.Checkpoint, &c) != nil {
		return nil, nil //nolint:nilerr // a checkpoint that cannot be read means that nothing is known
	}
	p, err := t.find(ctx, call.Arguments.String("path"))
	if err != nil || exact(p.actual) != c.Path {
		return nil, nil //nolint:nilerr // an unusable path means that nothing is known
	}
	now, err := t.load(ctx, p)
	if err != nil {
		return nil, nil //nolint:nilerr // an unreadable file means that nothing is known
	}
	switch now.hash {
	case c.After:
		data := changeData{Path: exact(p.path), Created: c.Before == "", Changed: true, Size: len(now.content), SHA256: now.hash}
		r := success(data, "Changed "+quote(p.path)+". The tool was interrupted, but the file shows that the change was complete.")
		return remember(call, r, p.actual, now.hash), nil
	case c.Before:
		return nil, tool.ErrNotRun
	}
	return nil, nil
}
