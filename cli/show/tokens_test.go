package show_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func TestTokens(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	got := show.View{Now: now}.Tokens([]*tooldv1.Token{{
		TokenId: "cred-1", Kind: tooldv1.TokenKind_TOKEN_KIND_SESSION, Name: "\x1b[31mci\u202e", ReadOnly: true, ExpiresAt: timestamppb.New(now.Add(time.Hour)),
		Principal: &tooldv1.Principal{Subject: "ann", Roles: []tooldv1.Role{tooldv1.Role_ROLE_VIEWER, tooldv1.Role_ROLE_CALLER}},
	}})
	for _, want := range []string{"cred-1", "session", "1h", "ann", "read-only viewer,caller"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("control characters reach the terminal: %q", got)
	}
}
