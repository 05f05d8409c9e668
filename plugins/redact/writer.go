package redact

import "io"

// Log is a destination of log lines.
type Log interface {
	io.Writer
	Sync() error
}

// Log returns a Log that removes secrets and then writes to out. Each write is redacted separately, so it must contain whole lines.
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
