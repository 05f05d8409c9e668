package watch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/toold-dev/toold/call"
)

// A Cursor is the position of a watcher in the log of a call: the epoch in which an event was published, and its sequence.
type Cursor struct {
	Epoch, Sequence int64
}

func (c Cursor) String() string {
	return "c1." + strconv.FormatInt(c.Epoch, 10) + "." + strconv.FormatInt(c.Sequence, 10)
}

// feedCursor returns the cursor of a watcher of a feed. position is the newest entry that was returned completely. part is the number of
// events of the next entry that were returned.
func feedCursor(position int64, part int) string {
	return "f1." + strconv.FormatInt(position, 10) + "." + strconv.Itoa(part)
}

// ParseCursor parses the text of a [Cursor].
func ParseCursor(s string) (Cursor, error) {
	epoch, sequence, ok := strings.Cut(strings.TrimPrefix(s, "c1."), ".")
	e, err1 := strconv.ParseInt(epoch, 10, 64)
	n, err2 := strconv.ParseInt(sequence, 10, 64)
	if !ok || err1 != nil || err2 != nil || e < 0 || n < 0 || !strings.HasPrefix(s, "c1.") {
		return Cursor{}, badCursor(s, "a call")
	}
	return Cursor{e, n}, nil
}

// ParseFeedCursor parses the cursor of a feed or a batch.
func ParseFeedCursor(s string) (position int64, part int, err error) {
	first, second, ok := strings.Cut(strings.TrimPrefix(s, "f1."), ".")
	position, err1 := strconv.ParseInt(first, 10, 64)
	part, err2 := strconv.Atoi(second)
	if !ok || err1 != nil || err2 != nil || position < 0 || part < 0 || !strings.HasPrefix(s, "f1.") {
		return 0, 0, badCursor(s, "a feed")
	}
	return position, part, nil
}

func badCursor(s, of string) error {
	if len(s) > 80 {
		s = s[:80]
	}
	return call.InvalidField("cursor", "%s is not a cursor of %s; send a cursor unchanged, as the daemon sent it", fmt.Sprintf("%q", s), of)
}

// CursorAfter returns the cursor directly after an event that this daemon published.
func (s *Service) CursorAfter(sequence int64) string {
	return Cursor{Epoch: s.cfg.Epoch, Sequence: sequence}.String()
}
