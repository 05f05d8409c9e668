package audit

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
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

// Verify checks the links of a chain and compares the chain with the signed checkpoints. lines yields the records, oldest first. Retention
// may have removed records that are older than kept, but no newer records. Verify returns an error only when lines yields an error; the
// report then covers only the records before the error.
func Verify(namespace string, lines iter.Seq2[call.ChainRecord, error], signed []Checkpoint, kept time.Time) (Report, error) {
	v := NewVerifier(namespace, signed, kept)
	for l, err := range lines {
		if err != nil {
			return v.Report, err
		}
		v.Add(&l)
	}
	return v.End(), nil
}

// A Verifier verifies a chain record by record.
type Verifier struct {
	Report Report
	Newest *Checkpoint // the newest checkpoint that was compared; nil if none was

	kept   time.Time
	mine   []Checkpoint // checkpoints that are not compared yet, by position
	begun  bool         // true when the field before contains the link of the previous record, so that the next record can be checked
	before []byte
	last   int64
}

// NewVerifier returns a Verifier that begins with the oldest record. kept is as in [Verify].
func NewVerifier(namespace string, signed []Checkpoint, kept time.Time) *Verifier {
	v := &Verifier{Report: Report{Namespace: namespace}, kept: kept}
	for _, c := range signed {
		if c.Namespace == namespace {
			v.mine = append(v.mine, c)
		}
	}
	v.Report.Checkpoints = len(v.mine)
	return v
}

// Continue makes the Verifier begin after the record at position, which has this link. It ignores the checkpoints up to that record. Call
// it before Add.
func (v *Verifier) Continue(position int64, link []byte) {
	v.begun, v.before, v.last = true, link, position
	v.mine = slices.DeleteFunc(v.mine, func(c Checkpoint) bool { return c.Position <= position })
	v.Report.Checkpoints = len(v.mine)
}

// Add verifies the next record.
func (v *Verifier) Add(l *call.ChainRecord) {
	r := &v.Report
	for len(v.mine) > 0 && v.mine[0].Position < l.Position { // The chain does not contain the record that this checkpoint signed.
		v.missing()
	}
	switch {
	case l.Namespace == r.Namespace && l.Follows(v.before):
	case !v.begun && l.Time.Before(v.kept):
		r.Trimmed = true // The link of this record cannot be checked, because the record before it was removed. The later links can.
	case !v.begun:
		r.find("MISSING_HEAD", l.Position, "the chain begins with record %d of %s, which is not the first of its chain, or was changed", l.Position, l.Time.Format(time.RFC3339))
	default:
		r.find("CHANGED", l.Position, "record %d of %s was changed, or a record between it and record %d was removed", l.Position, l.Time.Format(time.RFC3339), v.last)
	}
	for len(v.mine) > 0 && v.mine[0].Position == l.Position {
		if !bytes.Equal(v.mine[0].Link, l.Link) {
			r.find("REWRITTEN", l.Position, "the chain was rewritten: up to record %d it differs from the chain that was signed at %s", l.Position, v.mine[0].Time.Format(time.RFC3339))
		}
		v.compared()
	}
	if r.Records == 0 {
		r.From = l.Time
	}
	r.Records++
	r.To, v.begun, v.before, v.last = l.Time, true, l.Link, l.Position
}

// End returns the report of a whole chain. Each checkpoint after the last record is a finding, because the end of the chain is missing.
func (v *Verifier) End() Report {
	for len(v.mine) > 0 {
		c := &v.mine[0]
		v.Report.find("MISSING_TAIL", c.Position, "the end is missing: at %s the chain reached record %d", c.Time.Format(time.RFC3339), c.Position)
		v.compared()
	}
	return v.Report
}

// Stop returns the report of a part of the chain. It does not report the checkpoints after the last record.
func (v *Verifier) Stop() Report {
	v.Report.Checkpoints -= len(v.mine)
	return v.Report
}

// Last returns the position and the link of the last record. Before the first record, it returns the arguments of Continue.
func (v *Verifier) Last() (position int64, link []byte) { return v.last, v.before }

// compared removes the next checkpoint, which has been compared.
func (v *Verifier) compared() { v.Newest, v.mine = &v.mine[0], v.mine[1:] }

// missing reports that the record of the next checkpoint does not exist, unless retention may have removed the record.
func (v *Verifier) missing() {
	switch c := &v.mine[0]; {
	case v.begun:
		v.Report.find("CHANGED", c.Position, "record %d, signed at %s, was removed after record %d", c.Position, c.Time.Format(time.RFC3339), v.last)
	case !c.Time.Before(v.kept):
		v.Report.find("MISSING_HEAD", c.Position, "the beginning is missing: record %d was signed at %s", c.Position, c.Time.Format(time.RFC3339))
	}
	v.compared()
}

func (r *Report) find(kind string, position int64, format string, args ...any) {
	const enough = 100
	if len(r.Findings) < enough {
		r.Findings = append(r.Findings, Finding{kind, position, fmt.Sprintf(format, args...)})
	}
}
