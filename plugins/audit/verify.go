package audit

import (
	"bytes"
	"fmt"
	"iter"
	"time"

	"github.com/toold-dev/toold/call"
)

// A Report is the result of verifying one namespace.
type Report struct {
	Namespace   string    `json:"namespace"`
	Records     int       `json:"records"`
	From        time.Time `json:"from,omitzero"` // times of the first and the last record
	To          time.Time `json:"to,omitzero"`
	Checkpoints int       `json:"checkpoints"` // number of compared checkpoints
	// Trimmed says that retention removed the beginning of the chain. Retention keeps the newest record that it may remove, so the
	// remaining chain begins with an expired record.
	Trimmed  bool      `json:"trimmed,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
}

// A Finding is a defect that only forgery or a broken disk can cause.
type Finding struct {
	Kind     string `json:"kind"` // CHANGED, MISSING_TAIL, MISSING_HEAD, REWRITTEN, SIGNATURE
	Position int64  `json:"position,omitempty"`
	Text     string `json:"text"`
}

// Verify checks the links of a chain and compares the chain with the signed checkpoints. lines yields the records, oldest first. kept is
// the time up to which retention may have removed records: it has removed none that is newer. An error comes from lines; then the report
// covers only the records before the error.
func Verify(namespace string, lines iter.Seq2[call.ChainRecord, error], signed []Checkpoint, kept time.Time) (Report, error) {
	r := Report{Namespace: namespace}
	var mine []Checkpoint
	for _, c := range signed {
		if c.Namespace == namespace {
			mine = append(mine, c)
		}
	}
	r.Checkpoints = len(mine)
	var before []byte
	var last int64
	for l, err := range lines {
		if err != nil {
			return r, err
		}
		for len(mine) > 0 && mine[0].Position < l.Position { // The chain does not contain the record that this checkpoint signed.
			r.missing(&mine[0], last, kept)
			mine = mine[1:]
		}
		switch {
		case l.Namespace == namespace && l.Follows(before):
		case r.Records == 0 && l.Time.Before(kept):
			r.Trimmed = true // The link of this record cannot be checked, because the record before it was removed. The later links can.
		case r.Records == 0:
			r.find("MISSING_HEAD", l.Position, "the chain begins with record %d of %s, which is not the first of its chain, or was changed", l.Position, l.Time.Format(time.RFC3339))
		default:
			r.find("CHANGED", l.Position, "record %d of %s was changed, or a record between it and record %d was removed", l.Position, l.Time.Format(time.RFC3339), last)
		}
		for len(mine) > 0 && mine[0].Position == l.Position {
			if !bytes.Equal(mine[0].Link, l.Link) {
				r.find("REWRITTEN", l.Position, "the chain was rewritten: up to record %d it differs from the chain that was signed at %s", l.Position, mine[0].Time.Format(time.RFC3339))
			}
			mine = mine[1:]
		}
		if r.Records == 0 {
			r.From = l.Time
		}
		r.Records++
		r.To, before, last = l.Time, l.Link, l.Position
	}
	for i := range mine {
		r.find("MISSING_TAIL", mine[i].Position, "the end is missing: at %s the chain reached record %d", mine[i].Time.Format(time.RFC3339), mine[i].Position)
	}
	return r, nil
}

// missing reports a signed record that does not exist, unless retention may have removed it.
func (r *Report) missing(c *Checkpoint, last int64, kept time.Time) {
	switch {
	case r.Records > 0:
		r.find("CHANGED", c.Position, "record %d, signed at %s, was removed after record %d", c.Position, c.Time.Format(time.RFC3339), last)
	case !c.Time.Before(kept):
		r.find("MISSING_HEAD", c.Position, "the beginning is missing: record %d was signed at %s", c.Position, c.Time.Format(time.RFC3339))
	}
}

func (r *Report) find(kind string, position int64, format string, args ...any) {
	const enough = 100
	if len(r.Findings) < enough {
		r.Findings = append(r.Findings, Finding{kind, position, fmt.Sprintf(format, args...)})
	}
}
