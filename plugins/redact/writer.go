package redact

import "io"

// A Log is where log lines go.
type Log interface {
	io.Writer
	Sync() error
}

// Log returns out without secrets. Each write is looked at by itself: it has to hold whole lines.
func (r *Redactor) Log(out Log) Log { return redactedLog{r, out} }

type redactedLog struct {
	r   *Redactor
	out Log
}

func (l redactedLog) Write(b []byte) (int, error) {
	if _, err := l.out.Write(l.r.Artifact("", b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (l redactedLog) Sync() error { return l.out.Sync() }
