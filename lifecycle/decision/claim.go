package decision

import (
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// Bounds of claims.
const (
	claimFor  = 5 * time.Minute // default duration of a claim
	claimMin  = 10 * time.Second
	claimMost = time.Hour
	maxClaims = 1000 // maximum number of changes to the claim of one suspension; each change adds an event to the log
)

// Claim returns the claim of round after the request of p, or nil if there is none then. changed reports whether the request changes
// the record.
func (k *Checker) Claim(c *call.Call, round *call.Round, p tool.Principal, r *call.ClaimRequest) (claim *call.Claim, changed bool, err error) {
	s, err := k.open(c, round)
	if err != nil {
		return nil, false, err
	}
	now := k.Now()
	held := round.Claim.At(now)
	mine := held != nil && held.By.Subject == p.Subject
	if err := mayClaim(held, mine, p, r); err != nil {
		return nil, false, err
	}
	switch {
	case r.For != 0:
	case r.To != "":
		r.For = claimMost
	default:
		r.For = claimFor
	}
	claim = &call.Claim{By: p, Since: now, Until: now.Add(r.For)}
	if r.To != "" {
		claim.By, claim.HandedBy = tool.Principal{Namespace: p.Namespace, Subject: r.To}, &p
	}
	claim.Until = min(claim.Until, s.ExpiresAt)
	switch {
	case r.Release && held == nil:
		return nil, false, nil
	case r.Release:
		claim = nil
	case r.To != "": // A claim for another person has a new beginning, and may be shorter.
	case mine && claim.Until.Sub(held.Until) < claimMin:
		return held, false, nil
	case mine:
		claim.Since = held.Since
	}
	if claim != nil && round.Claims >= maxClaims { // The limit does not apply to a release.
		return nil, false, call.Refuse(call.ResourceExhausted, "CLAIMS_FULL", "the claim of this suspension was changed %d times, which is the limit; decide without a claim", maxClaims)
	}
	return claim, true, nil
}

// mayClaim refuses an invalid request, and a request that the claim of another principal prevents.
func mayClaim(held *call.Claim, mine bool, p tool.Principal, r *call.ClaimRequest) error {
	switch {
	case r.For != 0 && (r.For < claimMin || r.For > claimMost):
		return call.InvalidField("duration", "is %v; want %v to %v", r.For, claimMin, claimMost)
	case r.To == p.Subject && p.Subject != "":
		return call.InvalidField("hand_over_to", "is you; claim the question without it")
	case r.To != "" && r.Release:
		return call.InvalidField("hand_over_to", "excludes release")
	case r.Release && r.TakeOver:
		return call.InvalidField("take_over", "excludes release")
	case held == nil || mine:
		return nil
	case r.TakeOver && p.HasRole("operator"):
		return nil
	case r.TakeOver:
		return call.Refuse(call.PermissionDenied, "OPERATOR_REQUIRED", "taking over the claim of %s needs the role operator", held.By.Subject)
	}
	refusal := call.Refuse(call.FailedPrecondition, "ALREADY_CLAIMED", "%s looks at this question until %s; you may decide anyway", held.By.Subject, call.FormatTime(held.Until.Time()))
	refusal.Metadata = map[string]string{"claimed_by": held.By.Subject, "until": call.FormatTime(held.Until.Time())}
	return refusal
}

// Claimed returns the event that reports a claim, and the change of the record.
func Claimed(suspensionID string, claim *call.Claim) (call.Event, func(*call.Call)) {
	ev := call.Event{Type: call.EventClaimed, Claim: &call.ClaimChanged{SuspensionID: suspensionID, Claim: claim}}
	return ev, func(c *call.Call) {
		last := changeLast(c)
		last.Claim = claim
		last.Claims++
	}
}
