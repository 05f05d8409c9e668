package service

import (
	"context"
	"strings"
	"unicode"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

const (
	// maxTickets is the maximum number of suspensions in a WhoAmI request.
	maxTickets = 100
	// maxSuspensionID is the maximum length of a suspension id in a request, in bytes. Ids that toold makes are shorter.
	maxSuspensionID = 64
)

// WhoAmI returns the principal of the request, and what it may do with suspensions.
func (s *calls) WhoAmI(ctx context.Context, req *tooldv1.WhoAmIRequest) (*tooldv1.WhoAmIResponse, error) {
	id := access.From(ctx)
	if n := len(req.GetSuspensionIds()); n > maxTickets {
		return nil, call.InvalidField("suspension_ids", "has %d ids; want at most %d", n, maxTickets)
	}
	resp := &tooldv1.WhoAmIResponse{Principal: translate.FromPrincipal(&id.Principal), ExpiresAt: translate.FromTime(id.Expires), ReadOnly: id.ReadOnly()}
	refused := mayDecide(id)
	for _, suspension := range req.GetSuspensionIds() {
		if err := checkSuspensionID("suspension_ids", suspension); err != nil {
			return nil, err
		}
		rights := call.NoRights(suspension, refused)
		if refused == nil {
			var err error
			if rights, err = s.engine.Rights(ctx, id.Principal, suspension); err != nil {
				return nil, err
			}
		}
		resp.Tickets = append(resp.Tickets, translate.FromRights(&rights))
	}
	return resp, nil
}

// mayDecide returns nil if the principal may send decisions, and otherwise the refusal.
func mayDecide(id *access.Identity) error {
	rule := access.Table()[tooldv1.CallService_ResumeTool_FullMethodName]
	return rule.Permit(id, tooldv1.CallService_ResumeTool_FullMethodName)
}

// ClaimSuspension claims a suspension or releases the claim.
func (s *calls) ClaimSuspension(ctx context.Context, req *tooldv1.ClaimSuspensionRequest) (*tooldv1.ClaimSuspensionResponse, error) {
	if err := checkSuspensionID("suspension_id", req.GetSuspensionId()); err != nil {
		return nil, err
	}
	r := call.ClaimRequest{SuspensionID: req.GetSuspensionId(), Release: req.GetRelease(), TakeOver: req.GetTakeOver(), To: req.GetHandOverTo()}
	if err := checkSubject("hand_over_to", r.To); err != nil {
		return nil, err
	}
	if d := req.GetDuration(); d != nil {
		if r.For = d.AsDuration(); d.CheckValid() != nil || r.For <= 0 {
			return nil, call.InvalidField("duration", "must be a positive duration")
		}
	}
	claim, err := s.engine.Claim(ctx, access.From(ctx).Principal, r)
	if err != nil {
		return nil, err
	}
	return &tooldv1.ClaimSuspensionResponse{Claim: translate.FromClaim(claim)}, nil
}

func checkSuspensionID(field, id string) error {
	if err := translate.Required(field, id); err != nil {
		return err
	}
	return translate.Short(field, id, maxSuspensionID)
}

// maxSubject is the largest length of a subject in a request, in bytes.
const maxSubject = 256

func checkSubject(field, subject string) error {
	if strings.ContainsFunc(subject, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return call.InvalidField(field, "has a character that cannot be printed")
	}
	return translate.Short(field, subject, maxSubject)
}
