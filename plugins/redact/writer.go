package redact

import "io"

// A Log is where log lines go.
type Log interface {
	io.Writer
	Sync() error
}

// Log returns out without secrets. Each write is looked at by itself: it has to hold whole lines.
func (l *Live) Log(out Log) Log { return redactedLog{l, out} }

type redactedLog struct {
	l   *Live
	out Log
}

func (r redactedLog) Write(b []byte) (int, error) {
	if _, err := r.out.Write(r.l.Artifact("", b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (r redactedLog) Sync() error { return r.out.Sync() }
