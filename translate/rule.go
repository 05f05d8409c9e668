package translate

import (
	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

func FromRule(r *call.Rule) *tooldv1.Rule {
	return &tooldv1.Rule{
		RuleId: r.ID, Option: r.Option, Title: r.Title, Tool: r.Tool, ToolDigest: r.ToolDigest, Principal: r.Principal, OnBehalfOf: r.OnBehalfOf,
		Scope: fromRememberScope(r.Scope), ScopeId: r.ScopeID, MadeBy: FromPrincipal(&r.By), CreatedAt: FromTime(r.Created.Time()), Until: FromTime(r.Until.Time()),
		CallId: r.CallID, DecisionId: r.DecisionID, Gate: r.Gate,
	}
}

func fromRememberScope(s tool.Scope) tooldv1.RememberScope {
	return tooldv1.RememberScope(tooldv1.RememberScope_value["REMEMBER_SCOPE_"+string(s)])
}

// ToRemember checks the form of a request to remember a decision.
func ToRemember(in *tooldv1.Remember) (*tool.Remember, error) {
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
		return nil, UnknownEnum("decision.remember.scope", int32(in.GetScope()))
	}
	var err error
	out.Until, err = ToTime("decision.remember.until", in.GetUntil())
	return out, err
}

func fromRemember(r *tool.Remember) *tooldv1.Remember {
	if r == nil {
		return nil
	}
	return &tooldv1.Remember{Option: r.Option, Scope: fromRememberScope(r.Scope), Until: FromTime(r.Until)}
}
