package daemon

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/plugins/audit"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/store"
)

const (
	auditScan     = 20_000 // maximum number of records that a request for one page reads
	auditVerified = 50_000 // maximum number of records that one request verifies
	auditCompared = 250    // maximum number of checkpoints from the daemon's file that one request compares; the same again from the request
)

// AuditKinds implements [service.Audit].
func (a adminOf) AuditKinds() []string { return audit.Kinds() }

// Audit implements [service.Audit].
func (a adminOf) Audit(ctx context.Context, namespace string, q service.AuditQuery) (service.AuditPage, error) {
	match := audit.Query{Principal: q.Principal, CallID: q.CallID, Kinds: q.Kinds, After: q.StoredAfter, Before: q.StoredBefore}
	page := service.AuditPage{Kept: a.d.store.Now().Add(-a.d.cfg.Retention.Tombstones).Time()}
	read, at := a.d.store.Records, q.Position
	if q.NewestFirst {
		read, at = a.d.store.RecordsBefore, cmp.Or(at, math.MaxInt64)
	}
	size := max(q.Limit, auditPage)
	if match.All() {
		size = q.Limit
	}
	for scanned := 0; scanned < auditScan; {
		records, err := read(ctx, namespace, audit.Kind, at, size)
		if err != nil {
			return page, corrupt(err)
		}
		for i := range records {
			r := &records[i]
			line, err := call.NewChainRecord(namespace, r.Position, r.Time.Time(), r.Key, r.CallID, r.Bytes)
			if err != nil {
				return page, call.Refuse(call.DataLoss, "CALL_CORRUPT", "%v", err)
			}
			if match.Passed(&line, q.NewestFirst) {
				return page, nil
			}
			at = r.Position
			if match.Match(&line) {
				page.Records = append(page.Records, line)
			}
			if len(page.Records) == q.Limit {
				page.Next = at
				return page, nil
			}
		}
		if scanned += len(records); len(records) == 0 {
			return page, nil
		}
	}
	page.Next = at
	return page, nil
}

// corrupt converts an error of the store for clients.
func corrupt(err error) error {
	if errors.Is(err, store.ErrCorrupt) {
		return call.Refuse(call.DataLoss, "CALL_CORRUPT", "%v", err)
	}
	return err
}

// VerifyAudit implements [service.Audit].
func (a adminOf) VerifyAudit(ctx context.Context, namespace string, from service.AuditStart) (part service.AuditPart, err error) {
	signed, bad, err := a.signed(namespace, from.Checkpoints) // Read the checkpoints before the records: each checkpoint then belongs to a record that is read.
	if err != nil {
		return part, err
	}
	after, link := from.After, from.Link
	if n := len(signed); from.FromCheckpoint && n > 0 {
		if after, link, err = a.recordBefore(ctx, namespace, signed[n-1].Position); err != nil {
			return part, err
		}
	}
	v := audit.NewVerifier(namespace, signed, a.d.store.Now().Add(-a.d.cfg.Retention.Tombstones).Time())
	if after > 0 {
		v.Continue(after, link)
	}
	part.Done = true
	for l, err := range chainOf(a.d.store)(ctx, namespace, after) {
		if err != nil {
			return part, corrupt(err)
		}
		if v.Report.Records == auditVerified {
			part.Done = false
			break
		}
		v.Add(&l)
	}
	report := v.Stop
	if part.Done {
		report = v.End
	}
	r := report()
	if from.After == 0 {
		r.Findings = append(bad, r.Findings...) // findings about signatures are reported once, with the first part
	}
	part.Records, part.Compared, part.From, part.To, part.Trimmed = r.Records, r.Checkpoints, r.From, r.To, r.Trimmed
	part.Position, part.Link = v.Last()
	for _, f := range r.Findings {
		part.Findings = append(part.Findings, service.AuditFinding(f))
	}
	if v.Newest != nil {
		newest := fromSigned(v.Newest)
		part.Newest = &newest
	}
	return part, nil
}

// recordBefore returns position and link of the record before a position, or zero values when there is none.
func (a adminOf) recordBefore(ctx context.Context, namespace string, position int64) (int64, []byte, error) {
	found, err := a.d.store.RecordsBefore(ctx, namespace, audit.Kind, position, 1)
	if err != nil || len(found) == 0 || len(found[0].Bytes) < call.LinkSize {
		return 0, nil, corrupt(err)
	}
	return found[0].Position, found[0].Bytes[:call.LinkSize], nil
}

// signed returns checkpoints of a chain that the daemon's key has signed, ordered by position, and a finding for each checkpoint with
// another signature. It reads the daemon's file and lines, which are checkpoints that were stored elsewhere.
func (a adminOf) signed(namespace, lines string) ([]audit.Checkpoint, []audit.Finding, error) {
	var key ed25519.PublicKey
	if private, err := readAuditKey(auditKeyFile(a.d.cfg)); err == nil {
		key = private.Public().(ed25519.PublicKey)
	}
	own, err := audit.Tail(checkpointFile(a.d.cfg), a.d.store.Identity().StoreID, namespace)
	if err != nil {
		return nil, nil, err
	}
	good, bad := audit.Check(audit.Thin(own, auditCompared), key)
	if lines == "" {
		return good, bad, nil
	}
	foreign, rejected, err := audit.ReadCheckpoints(strings.NewReader(strings.TrimRight(lines, "\n")+"\n"), key)
	if err != nil {
		return nil, nil, call.InvalidField("checkpoints", "%v", err)
	}
	if foreign = slices.DeleteFunc(foreign, func(c audit.Checkpoint) bool { return c.Namespace != namespace }); len(foreign)+len(rejected) == 0 {
		return nil, nil, call.InvalidField("checkpoints", "has no checkpoint of the namespace %q", namespace)
	}
	good = append(good, audit.Thin(foreign, auditCompared)...)
	slices.SortStableFunc(good, func(x, y audit.Checkpoint) int { return cmp.Compare(x.Position, y.Position) })
	return good, append(bad, rejected...), nil
}

// AuditCheckpoints implements [service.Audit].
func (a adminOf) AuditCheckpoints(namespace string, before int64, limit int) (out []service.AuditCheckpoint, err error) {
	all, err := audit.Tail(checkpointFile(a.d.cfg), a.d.store.Identity().StoreID, namespace)
	if err != nil {
		return nil, err
	}
	for _, c := range slices.Backward(all) {
		if len(out) == limit {
			break
		}
		if before == 0 || c.Position < before {
			out = append(out, fromSigned(&c))
		}
	}
	return out, nil
}

func fromSigned(c *audit.Checkpoint) service.AuditCheckpoint {
	line, _ := json.Marshal(c) // Marshal cannot fail, because the checkpoint was read from JSON.
	return service.AuditCheckpoint{Position: c.Position, Link: bytes.Clone(c.Link), Key: bytes.Clone(c.Key), Time: c.Time, Line: string(line)}
}
