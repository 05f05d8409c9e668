package calllog

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/toold-dev/toold/call"
)

// scanPiece is what is read of an artifact at once while lines are counted or searched.
const scanPiece = 256 << 10

// Lines returns count lines from the first, which counts from 1, at most limit bytes of them: the rest of a line that is cut begins at the end of
// the part. A first line after the last one returns nothing.
func (a *Artifact) Lines(ctx context.Context, first, count int64, limit int) (call.Part, error) {
	if err := invalidRange(first, count); err != nil {
		return call.Part{}, err
	}
	begin, _, err := a.line(ctx, 0, first-1)
	if err != nil {
		return call.Part{}, err
	}
	part, err := a.part(begin, int64(limit))
	if err != nil {
		return call.Part{}, err
	}
	part.FirstLine = first
	end, lines := skipLines(part.Bytes, count)
	if lines < count && end < len(part.Bytes) { // the last one has no line end, or is cut
		end, lines = len(part.Bytes), lines+1
	}
	part.EOF = part.EOF && end == len(part.Bytes)
	part.Bytes, part.Lines = part.Bytes[:end], lines
	return part, nil
}

// line returns where the bytes behind so many line ends begin, counted from an offset; the end and how many there are
// when there are fewer.
func (a *Artifact) line(ctx context.Context, from, ends int64) (offset, found int64, err error) {
	buf := make([]byte, min(scanPiece, max(a.size-from, 0)))
	for offset = from; found < ends && offset < a.size; {
		if ctx.Err() != nil {
			return offset, found, context.Cause(ctx)
		}
		n, err := a.ReadAt(buf, offset)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return offset, found, err
		}
		passed, lines := skipLines(buf[:n], ends-found)
		if found += lines; found < ends {
			passed = n
		}
		offset += int64(passed)
	}
	return offset, found, nil
}

// skipLines returns the length of the first count lines of b, as far as they end in it, and how many these are.
func skipLines(b []byte, count int64) (length int, lines int64) {
	if n := int64(bytes.Count(b, newline)); n <= count {
		return bytes.LastIndexByte(b, '\n') + 1, n
	}
	for lines < count {
		length += bytes.IndexByte(b[length:], '\n') + 1
		lines++
	}
	return length, lines
}

var newline = []byte{'\n'}

// invalidRange is the refusal of a line that there cannot be.
func invalidRange(first, count int64) error {
	if first < 1 {
		return call.InvalidField("lines.first", "is %d; lines count from 1", first)
	}
	if count < 1 {
		return call.InvalidField("lines.count", "is %d; want 1 or more", count)
	}
	return nil
}
