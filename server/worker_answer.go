package server

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// Bounds of what a worker tells people of a call.
const (
	maxDescribed = 64 << 10 // bytes of all of it
	maxPlaces    = 256
	maxNotes     = 64
	maxPreviews  = 16
	maxComplaint = 8 << 10
)

// toWorkerAnswer reads what a worker says of a call that does not run yet. What cannot be taken as it is counts as an error.
func toWorkerAnswer(a *tooldv1.WorkerAnswer) WorkerAnswer {
	var out WorkerAnswer
	if e := a.GetError(); e != nil {
		out.Err = toComplaint(e)
		return out
	}
	if m := a.GetAssessment(); m != nil {
		effects := toEffects(m)
		out.Effects = &effects
	}
	if d := a.GetDescription(); d != nil {
		out.Description, out.Err = toDescription(d)
	}
	return out
}

// toComplaint reads what is wrong with arguments. The model reads no more of it than it can use.
func toComplaint(e *tooldv1.ToolError) error {
	out := toWorkerError(e, tool.InvalidArguments)
	out.Message, out.Reason, out.DeveloperMessage = clip(out.Message, maxComplaint), clip(out.Reason, shortText), clip(out.DeveloperMessage, maxComplaint)
	out.Violations = out.Violations[:min(len(out.Violations), maxPlaces)]
	for i, v := range out.Violations {
		out.Violations[i] = tool.Violation{Field: clip(v.Field, shortText), Description: clip(v.Description, shortText)}
	}
	return out
}

// toDescription reads a description, of which nothing has to be there.
func toDescription(d *tooldv1.Description) (*tool.Description, error) {
	if proto.Size(d) > maxDescribed || len(d.GetLocations()) > maxPlaces || len(d.GetNotes()) > maxNotes || len(d.GetPreview()) > maxPreviews {
		return nil, errors.New("the description is too large")
	}
	preview, err := toWorkerContent(d.GetPreview())
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(preview, func(c tool.Content) bool { return c.Artifact != "" }) {
		return nil, errors.New("a call that does not run yet has no artifacts")
	}
	out := &tool.Description{Kind: tool.Kind(word(d.GetKind(), "KIND_")), Title: d.GetTitle(), Preview: preview, Notes: d.GetNotes(), Basis: d.GetBasis()}
	for _, l := range d.GetLocations() {
		out.Locations = append(out.Locations, tool.Location{Path: l.GetPath(), Line: int(l.GetLine())})
	}
	return out, nil
}
