package service

import (
	"context"
	"errors"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

// Default and largest size, in bytes, of a range that ReadArtifact returns.
const (
	defaultRange = 256 << 10
	maxRange     = 512 << 10
)

// ReadArtifact returns a range of bytes or lines of the output or of an artifact of a call, or the lines that match a search.
func (s *calls) ReadArtifact(ctx context.Context, req *tooldv1.ReadArtifactRequest) (*tooldv1.ReadArtifactResponse, error) {
	if err := errors.Join(translate.Required("call_id", req.GetCallId()), translate.Required("name", req.GetName())); err != nil {
		return nil, err
	}
	limit := req.GetLimit()
	switch {
	case req.GetOffset() < 0:
		return nil, call.InvalidField("offset", "is %d; 0 is the beginning", req.GetOffset())
	case limit < 0:
		return nil, call.InvalidField("limit", "is %d; 0 is 256 KiB", limit)
	case limit == 0:
		limit = defaultRange
	}
	limit = min(limit, maxRange)
	switch {
	case req.GetSearch() != nil && req.GetLines() != nil:
		return nil, call.InvalidField("lines", "excludes search; send one of the two")
	case req.GetSearch() != nil:
		return s.searchArtifact(ctx, req)
	case req.GetLines() != nil && req.GetOffset() != 0:
		return nil, call.InvalidField("offset", "excludes lines; send one of the two")
	case req.GetLines() != nil:
		lines := req.GetLines()
		part, err := s.engine.ReadLines(ctx, access.From(ctx).Principal, req.GetCallId(), req.GetName(), lines.GetFirst(), lines.GetCount(), int(limit))
		return fromPart(part, err)
	}
	part, err := s.engine.ReadArtifact(ctx, access.From(ctx).Principal, req.GetCallId(), req.GetName(), req.GetOffset(), int(limit))
	return fromPart(part, err)
}

func fromPart(part call.Part, err error) (*tooldv1.ReadArtifactResponse, error) {
	if err != nil {
		return nil, err
	}
	return &tooldv1.ReadArtifactResponse{
		Data: part.Bytes, TotalSize: part.Size, Eof: part.EOF, MimeType: part.MIMEType,
		NextOffset: part.Offset + int64(len(part.Bytes)), FirstLine: part.FirstLine, LineCount: part.Lines,
	}, nil
}

func (s *calls) searchArtifact(ctx context.Context, req *tooldv1.ReadArtifactRequest) (*tooldv1.ReadArtifactResponse, error) {
	q := req.GetSearch()
	found, err := s.engine.SearchArtifact(ctx, access.From(ctx).Principal, req.GetCallId(), req.GetName(), call.Search{
		Pattern: q.GetPattern(), Regexp: q.GetRegexp(), IgnoreCase: q.GetIgnoreCase(), After: req.GetOffset(), Limit: int(q.GetLimit()),
	})
	if err != nil {
		return nil, err
	}
	resp := &tooldv1.ReadArtifactResponse{TotalSize: found.Size, NextOffset: found.Next, Eof: found.EOF}
	for _, m := range found.Matches {
		resp.Matches = append(resp.Matches, &tooldv1.ArtifactMatch{Line: m.Line, Offset: m.Offset, Text: m.Text, Truncated: m.Cut})
	}
	return resp, nil
}
