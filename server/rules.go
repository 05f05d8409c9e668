package server

import (
	"context"
	"slices"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

const maxRuleID = 64

// ListRules returns a page of the remembered answers that the principal may see.
func (s *calls) ListRules(ctx context.Context, req *tooldv1.ListRulesRequest) (*tooldv1.ListRulesResponse, error) {
	if err := short("tool", req.GetTool(), maxFilter); err != nil {
		return nil, err
	}
	size, err := pageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	p := principal(ctx)
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
			resp.Rules = append(resp.Rules, fromRule(r))
			after = []byte(at)
		}
	}
	return resp, nil
}

// position orders rules as the engine does, by their age.
func position(r *call.Rule) string {
	return r.Created.UTC().Format("20060102T150405.000000000") + " " + r.ID
}

// RevokeRule ends a remembered answer.
func (s *calls) RevokeRule(ctx context.Context, req *tooldv1.RevokeRuleRequest) (*tooldv1.RevokeRuleResponse, error) {
	if err := required("rule_id", req.GetRuleId()); err != nil {
		return nil, err
	}
	if err := short("rule_id", req.GetRuleId(), maxRuleID); err != nil {
		return nil, err
	}
	r, err := s.engine.RevokeRule(ctx, principal(ctx).Principal, req.GetRuleId())
	if err != nil {
		return nil, err
	}
	return &tooldv1.RevokeRuleResponse{Rule: fromRule(r)}, nil
}

// SetPermissionMode chooses the mode of a run or thread.
func (s *calls) SetPermissionMode(ctx context.Context, req *tooldv1.SetPermissionModeRequest) (*tooldv1.SetPermissionModeResponse, error) {
	if req.GetRunId() == "" && req.GetThreadId() == "" {
		return nil, call.InvalidField("selector", "name a run or a thread")
	}
	if err := required("mode", req.GetMode()); err != nil {
		return nil, err
	}
	if err := checkBounds(bound{"run_id", req.GetRunId(), maxRunID}, bound{"thread_id", req.GetThreadId(), maxRunID}, bound{"mode", req.GetMode(), maxRunID}); err != nil {
		return nil, err
	}
	previous, err := s.engine.SetMode(ctx, principal(ctx).Principal, req.GetRunId(), req.GetThreadId(), req.GetMode())
	if err != nil {
		return nil, err
	}
	return &tooldv1.SetPermissionModeResponse{Previous: previous}, nil
}

func fromRule(r *call.Rule) *tooldv1.Rule {
	return &tooldv1.Rule{
		RuleId: r.ID, Option: r.Option, Title: r.Title, Tool: r.Tool, ToolDigest: r.ToolDigest, Principal: r.Principal, OnBehalfOf: r.OnBehalfOf,
		Scope: fromRememberScope(r.Scope), ScopeId: r.ScopeID, MadeBy: fromPrincipal(&r.By), CreatedAt: fromTime(r.Created), Until: fromTime(r.Until),
		CallId: r.CallID, DecisionId: r.DecisionID, Gate: r.Gate,
	}
}

func fromRememberScope(s tool.Scope) tooldv1.RememberScope {
	return tooldv1.RememberScope(tooldv1.RememberScope_value["REMEMBER_SCOPE_"+string(s)])
}

// toRemember checks the form of a wish to keep an answer.
func toRemember(in *tooldv1.Remember) (*tool.Remember, error) {
	if in == nil {
		return nil, nil
	}
	out := &tool.Remember{Option: in.GetOption()}
	switch in.GetScope() {
	case tooldv1.RememberScope_REMEMBER_SCOPE_RUN:
		out.Scope = tool.RunScope
	case tooldv1.RememberScope_REMEMBER_SCOPE_THREAD:
		out.Scope = tool.ThreadScope
	case tooldv1.RememberScope_REMEMBER_SCOPE_NAMESPACE:
		out.Scope = tool.NamespaceScope
	case tooldv1.RememberScope_REMEMBER_SCOPE_UNSPECIFIED:
		return nil, call.InvalidField("decision.remember.scope", "is required: RUN, THREAD or NAMESPACE")
	default:
		return nil, unknownEnum("decision.remember.scope", int32(in.GetScope()))
	}
	var err error
	out.Until, err = toTime("decision.remember.until", in.GetUntil())
	return out, err
}

func fromRemember(r *tool.Remember) *tooldv1.Remember {
	if r == nil {
		return nil
	}
	return &tooldv1.Remember{Option: r.Option, Scope: fromRememberScope(r.Scope), Until: fromTime(r.Until)}
}
