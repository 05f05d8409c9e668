package calllog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"

	"github.com/toold-dev/toold/call"
)

// scanPiece is the number of bytes that are read at once while lines are counted or searched.
const scanPiece = 256 << 10

// Lines returns count lines, beginning with line number first, but at most limit bytes. Line numbers start at 1; -1 is the last line. If
// Lines cuts a line, the rest of the line begins at the end of the returned part. When first is after the last line, the part is empty.
func (a *Artifact) Lines(ctx context.Context, first, count int64, limit int) (call.Part, error) {
	if err := invalidRange(first, count); err != nil {
		return call.Part{}, err
	}
	if first < 0 {
		total, err := a.countLines(ctx)
		if err != nil {
			return call.Part{}, err
		}
		first = max(total+1+first, 1)
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
	if lines < count && end < len(part.Bytes) { // The last line has no line end, or is cut.
		end, lines = len(part.Bytes), lines+1
	}
	part.EOF = part.EOF && end == len(part.Bytes)
	part.Bytes, part.Lines = part.Bytes[:end], lines
	return part, nil
}

// countLines returns the number of lines, including a last line without a line end.
func (a *Artifact) countLines(ctx context.Context) (int64, error) {
	end, lines, err := a.line(ctx, 0, math.MaxInt64)
	if err != nil || end == 0 {
		return lines, err
	}
	last := make([]byte, 1)
	if _, err := a.ReadAt(last, end-1); err != nil && !errors.Is(err, io.EOF) {
		return lines, err
	}
	if last[0] != '\n' {
		lines++
	}
	return lines, nil
}

// line starts at the offset from and skips as many line ends as the parameter ends says. It returns the offset behind the last of them.
// When the artifact has fewer line ends, line returns the end of the artifact and the number of line ends that it found.
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

// skipLines skips at most count complete lines at the beginning of b. It returns the length of these lines in bytes, and their number.
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

// invalidRange returns the refusal of a line range that cannot exist.
func invalidRange(first, count int64) error {
	if first == 0 {
		return call.InvalidField("lines.first", "is 0; lines count from 1, or from -1 for the last line")
	}
	if count < 1 {
		return call.InvalidField("lines.count", "is %d; want 1 or more", count)
	}
	return nil
}
