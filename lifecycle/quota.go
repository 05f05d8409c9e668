package lifecycle

import (
	"errors"
	"fmt"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// quota is what a call has in its spool, guarded by live.order. Earlier attempts count: what they printed is still there.
type quota struct {
	streams map[string]struct{} // whose size is in total
	total   int64
}

// spend notes that n bytes are going to a stream, or stops the call.
func (l *live) spend(stream string, n int) error {
	q := &l.printed
	if _, known := q.streams[stream]; !known {
		size, err := l.e.spool.Size(l.key, stream)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if q.streams == nil {
			q.streams = map[string]struct{}{}
		}
		q.streams[stream] = struct{}{}
		q.total += size
	}
	most := l.e.cfg.OutputQuota
	if q.total+int64(n) > most {
		return l.exhausted("OUTPUT_QUOTA", fmt.Sprintf("Stopped: a call may print and save %d bytes, and this one had more", most))
	}
	q.total += int64(n)
	return nil
}

// print appends to a stream of the spool. On a full disk it does not: what is left is for the ends of calls.
func (l *live) print(stream string, b []byte) (offset int64, err error) {
	if err := l.spend(stream, len(b)); err != nil {
		return 0, err
	}
	if err := l.storedOut(len(b)); err != nil {
		return 0, err
	}
	if !l.e.cfg.Full() {
		offset, err = l.e.spool.Append(l.key, stream, b)
		if !errors.Is(err, store.ErrFull) {
			return offset, err
		}
	}
	return 0, l.exhausted("STORAGE_FULL", "Stopped: there is no space for what it prints")
}

// exhausted stops a call that has met a limit while it runs.
func (l *live) exhausted(reason, message string) error {
	cause := &stopCause{call.Failed, tool.Error{Code: tool.ResourceExhausted, Reason: reason, Message: message, Aborted: true}}
	l.stop(cause)
	return cause
}
