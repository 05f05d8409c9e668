package service

import (
	"cmp"
	"context"
	"slices"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

const maxRuleID = 64

// ListRules returns a page of the remembered answers that the principal may see.
func (s *calls) ListRules(ctx context.Context, req *tooldv1.ListRulesRequest) (*tooldv1.ListRulesResponse, error) {
	if err := translate.Short("tool", req.GetTool(), translate.MaxFilter); err != nil {
		return nil, err
	}
	size, err := pageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	p := access.From(ctx)
	bound := bind("rules", p.Namespace, p.Subject, req.GetTool())
	after, err := open(req.GetPageToken(), bound)
	if err != nil {
		return nil, err
	}
	rules := slices.DeleteFunc(s.engine.Rules(p.Principal), func(r *call.Rule) bool { return req.GetTool() != "" && r.Tool != req.GetTool() })
	resp := &tooldv1.ListRulesResponse{}
	for _, r := range rules {
		switch at := position(r); {
		case at <= string(after):
		case len(resp.Rules) == size:
			resp.NextPageToken = seal(after, bound)
			return resp, nil
		default:
			resp.Rules = append(resp.Rules, translate.FromRule(r))
			after = []byte(at)
		}
	}
	return resp, nil
}

// position returns the sort key of a rule: its age, as in the engine.
func position(r *call.Rule) string {
	return r.Created.Time().Format("20060102T150405.000000000") + " " + r.ID
}

// RevokeRule ends a remembered answer.
func (s *calls) RevokeRule(ctx context.Context, req *tooldv1.RevokeRuleRequest) (*tooldv1.RevokeRuleResponse, error) {
	if err := translate.Required("rule_id", req.GetRuleId()); err != nil {
		return nil, err
	}
	if err := translate.Short("rule_id", req.GetRuleId(), maxRuleID); err != nil {
		return nil, err
	}
	r, err := s.engine.RevokeRule(ctx, access.From(ctx).Principal, req.GetRuleId())
	if err != nil {
		return nil, err
	}
	return &tooldv1.RevokeRuleResponse{Rule: translate.FromRule(r)}, nil
}

// SetPermissionMode sets the permission mode of a run or thread.
func (s *calls) SetPermissionMode(ctx context.Context, req *tooldv1.SetPermissionModeRequest) (*tooldv1.SetPermissionModeResponse, error) {
	if req.GetRunId() == "" && req.GetThreadId() == "" {
		return nil, call.InvalidField("selector", "name a run or a thread")
	}
	if err := translate.Required("mode", req.GetMode()); err != nil {
		return nil, err
	}
	if err := cmp.Or(translate.Short("run_id", req.GetRunId(), translate.MaxRunID), translate.Short("thread_id", req.GetThreadId(), translate.MaxRunID), translate.Short("mode", req.GetMode(), translate.MaxRunID)); err != nil {
		return nil, err
	}
	previous, err := s.engine.SetMode(ctx, access.From(ctx).Principal, req.GetRunId(), req.GetThreadId(), req.GetMode())
	if err != nil {
		return nil, err
	}
	return &tooldv1.SetPermissionModeResponse{Previous: previous}, nil
}
