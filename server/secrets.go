package server

import (
	"context"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
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

// ListSecrets returns what references stand for.
func (s *admin) ListSecrets(ctx context.Context, req *tooldv1.ListSecretsRequest) (*tooldv1.ListSecretsResponse, error) {
	return &tooldv1.ListSecretsResponse{Secrets: each(s.admin.Secrets(ctx, req.GetCheck()), func(o *Secret) *tooldv1.Secret {
		return &tooldv1.Secret{
			Name: o.Name, Backend: o.Backend, Place: o.Place, Read: fromTime(o.Read), Problem: o.Problem,
			Allow: each(o.Allow, func(a *SecretAllow) *tooldv1.SecretAllow {
				return &tooldv1.SecretAllow{Namespaces: a.Namespaces, Tools: a.Tools, Parameters: a.Parameters}
			}),
		}
	})}, nil
}
