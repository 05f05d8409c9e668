package service

import (
	"context"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

// ListSecrets returns the secrets that can be referred to by name, without their values. An operator gets only the secrets that its
// namespace may use, and does not see where they are stored.
func (s *admin) ListSecrets(ctx context.Context, req *tooldv1.ListSecretsRequest) (*tooldv1.ListSecretsResponse, error) {
	id := access.From(ctx)
	if !id.Has(access.Administrator) {
		if req.GetCheck() { // Only an admin may request a check: it reads the secrets of every namespace and may start commands.
			return nil, call.Refuse(call.PermissionDenied, "ROLE_REQUIRED", "check needs the role admin; %q has %v", id.Subject, id.Roles)
		}
		return fromSecrets(entitled(s.admin.Secrets(ctx, false), id.Namespace)), nil
	}
	return fromSecrets(s.admin.Secrets(ctx, req.GetCheck())), nil
}

// entitled returns the part of the secrets that the operator of a namespace may see.
func entitled(all []secret.State, namespace string) (own []secret.State) {
	for i := range all {
		if s, ok := all[i].In(namespace); ok {
			own = append(own, s)
		}
	}
	return own
}

func fromSecrets(all []secret.State) *tooldv1.ListSecretsResponse {
	return &tooldv1.ListSecretsResponse{Secrets: translate.Each(all, func(o *secret.State) *tooldv1.Secret {
		problem := ""
		if o.Problem != nil {
			problem = o.Problem.Error()
		}
		return &tooldv1.Secret{
			Name: o.Name, Backend: o.Backend, Place: o.Place, Read: translate.FromTime(o.Read), Problem: problem,
			Allow: translate.Each(o.Allow, func(a *secret.Allow) *tooldv1.SecretAllow {
				return &tooldv1.SecretAllow{Namespaces: a.Namespaces, Tools: a.Tools, Parameters: a.Parameters}
			}),
		}
	})}
}
