package grpcserver

import (
	"context"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// A Secret is what a reference stands for, without its value.
type Secret struct {
	Name, Backend, Place string
	Allow                []SecretAllow
	Read                 time.Time // zero: never
	Problem              string    // empty: it was read
}

// A SecretAllow entitles what all of its lists match.
type SecretAllow struct{ Namespaces, Tools, Parameters []string }

// ListSecrets returns what references stand for. An operator gets those that its namespace is entitled to, without where they
// are kept.
func (s *admin) ListSecrets(ctx context.Context, req *tooldv1.ListSecretsRequest) (*tooldv1.ListSecretsResponse, error) {
	id := access.From(ctx)
	if !id.Has(access.Administrator) {
		if req.GetCheck() { // it reads those of every namespace, and may start commands
			return nil, call.Refuse(call.PermissionDenied, "ROLE_REQUIRED", "check needs the role admin; %q has %v", id.Subject, id.Roles)
		}
		return fromSecrets(entitled(s.admin.Secrets(ctx, false), id.Namespace)), nil
	}
	return fromSecrets(s.admin.Secrets(ctx, req.GetCheck())), nil
}

// entitled returns what the operator of a namespace sees of secrets.
func entitled(all []Secret, namespace string) (own []Secret) {
	for _, o := range all {
		allow := slices.DeleteFunc(slices.Clone(o.Allow), func(a SecretAllow) bool {
			return len(a.Namespaces) > 0 && !tool.AnyGlob(a.Namespaces, namespace)
		})
		if len(allow) == 0 {
			continue
		}
		for i := range allow {
			allow[i].Namespaces = []string{namespace}
		}
		o.Allow, o.Place = allow, ""
		if o.Problem != "" {
			o.Problem = "it cannot be read; the daemon's admin sees why"
		}
		own = append(own, o)
	}
	return own
}

func fromSecrets(all []Secret) *tooldv1.ListSecretsResponse {
	return &tooldv1.ListSecretsResponse{Secrets: translate.Each(all, func(o *Secret) *tooldv1.Secret {
		return &tooldv1.Secret{
			Name: o.Name, Backend: o.Backend, Place: o.Place, Read: translate.FromTime(o.Read), Problem: o.Problem,
			Allow: translate.Each(o.Allow, func(a *SecretAllow) *tooldv1.SecretAllow {
				return &tooldv1.SecretAllow{Namespaces: a.Namespaces, Tools: a.Tools, Parameters: a.Parameters}
			}),
		}
	})}
}
