package service

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

// tokenTime is how long a token is valid when the request sets no expiry.
const tokenTime = 90 * 24 * time.Hour

// CreateToken creates a token.
func (s *admin) CreateToken(ctx context.Context, req *tooldv1.CreateTokenRequest) (*tooldv1.CreateTokenResponse, error) {
	expires, err := translate.ToTime("expires_at", req.GetExpiresAt())
	if err != nil {
		return nil, err
	}
	if expires.IsZero() {
		expires = time.Now().Add(tokenTime)
	}
	g := access.Grant{Name: req.GetName(), Namespace: req.GetNamespace(), Subject: req.GetSubject(), Roles: rolesOf(req.GetRoles()), ReadOnly: req.GetReadOnly(), Expires: expires}
	text, t, err := s.auth.Create(ctx, access.From(ctx), g)
	if err != nil {
		return nil, err
	}
	return &tooldv1.CreateTokenResponse{Token: fromStored(t), Text: text}, nil
}

// ListTokens lists the stored credentials of a namespace.
func (s *admin) ListTokens(ctx context.Context, req *tooldv1.ListTokensRequest) (*tooldv1.ListTokensResponse, error) {
	size, err := pageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	id := access.From(ctx)
	bound := bind("tokens", id.Namespace, id.Subject, req.GetNamespace())
	after, err := openToken(req.GetPageToken(), bound)
	if err != nil {
		return nil, err
	}
	list, err := s.auth.List(id, req.GetNamespace())
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(t *access.Stored) bool { return t.Created.UnixNano() <= after })
	resp := &tooldv1.ListTokensResponse{}
	for i, t := range list {
		if i >= size && !t.Created.Equal(list[i-1].Created) {
			resp.NextPageToken = sealToken(list[i-1].Created.UnixNano(), bound)
			break
		}
		resp.Tokens = append(resp.Tokens, fromStored(t))
	}
	return resp, nil
}

// RevokeToken ends a stored credential.
func (s *admin) RevokeToken(ctx context.Context, req *tooldv1.RevokeTokenRequest) (*tooldv1.RevokeTokenResponse, error) {
	if err := translate.Required("token_id", req.GetTokenId()); err != nil {
		return nil, err
	}
	n, err := s.auth.Revoke(ctx, access.From(ctx), req.GetTokenId())
	if err != nil {
		return nil, err
	}
	return &tooldv1.RevokeTokenResponse{Revoked: int32(n)}, nil
}

// CreateLogin creates a login link.
func (s *admin) CreateLogin(ctx context.Context, _ *tooldv1.CreateLoginRequest) (*tooldv1.CreateLoginResponse, error) {
	addresses := s.admin.Info(ctx).Addresses
	i := slices.IndexFunc(addresses, func(a Address) bool { return a.Network == "http" })
	if i < 0 {
		return nil, call.Refuse(call.FailedPrecondition, "NO_HTTP", "the daemon does not serve HTTP: set listen.http")
	}
	text, t, err := s.auth.CreateLogin(ctx, access.From(ctx))
	if err != nil {
		return nil, err
	}
	base := cmp.Or(addresses[i].Browser, addresses[i].URL())
	return &tooldv1.CreateLoginResponse{Url: base + "/login#" + text, ExpiresAt: timestamppb.New(t.Expires)}, nil
}

// fromStored translates a credential without its hash.
func fromStored(t *access.Stored) *tooldv1.Token {
	return &tooldv1.Token{
		TokenId: t.ID, Kind: tooldv1.TokenKind(tooldv1.TokenKind_value["TOKEN_KIND_"+strings.ToUpper(string(t.Kind))]), Name: t.Name,
		Principal: translate.FromPrincipal(&t.Principal), ReadOnly: t.ReadOnly,
		CreatedBy: t.Creator, CreatedAt: timestamppb.New(t.Created), ExpiresAt: timestamppb.New(t.Expires),
	}
}

func rolesOf(roles []tooldv1.Role) (names []string) {
	for _, r := range roles {
		names = append(names, strings.ToLower(strings.TrimPrefix(r.String(), "ROLE_")))
	}
	return names
}
