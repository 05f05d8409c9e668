package lifecycle

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/toold-dev/toold/call"
)

// cursor is where a watcher stands in the log of a call: the epoch in which the event was told, and its number.
type cursor struct {
	epoch, sequence int64
}

func (c cursor) String() string {
	return "c1." + strconv.FormatInt(c.epoch, 10) + "." + strconv.FormatInt(c.sequence, 10)
}

// feedCursor names the position of the newest entry that was handed out whole, and how many events of the next one were.
func feedCursor(position int64, part int) string {
	return "f1." + strconv.FormatInt(position, 10) + "." + strconv.Itoa(part)
}

func parseCursor(s string) (cursor, error) {
	epoch, sequence, ok := strings.Cut(strings.TrimPrefix(s, "c1."), ".")
	e, err1 := strconv.ParseInt(epoch, 10, 64)
	n, err2 := strconv.ParseInt(sequence, 10, 64)
	if !ok || err1 != nil || err2 != nil || e < 0 || n < 0 || !strings.HasPrefix(s, "c1.") {
		return cursor{}, badCursor(s, "a call")
	}
	return cursor{e, n}, nil
}

func parseFeedCursor(s string) (position int64, part int, err error) {
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
	return call.InvalidField("cursor", "%s is not a cursor of %s; send one back as you got it", fmt.Sprintf("%q", s), of)
}

// CursorAfter returns the cursor behind an event that the current daemon told.
func (e *Engine) CursorAfter(sequence int64) string { return cursor{e.epoch, sequence}.String() }
