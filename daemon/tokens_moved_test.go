package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestTokensOfACopiedStore checks that a copied or restored store has no created tokens, because some may have been revoked after the copy. A
// store that was only moved keeps them.
func TestTokensOfACopiedStore(t *testing.T) {
	s := newSite(t, "")
	journal := filepath.Join(s.data, "journal.db")
	p := s.start()
	made, err := p.admin.CreateToken(within(t), &tooldv1.CreateTokenRequest{Name: "desktop", Roles: []tooldv1.Role{tooldv1.Role_ROLE_CALLER}})
	must(t, err)
	copied := func(flags ...string) error {
		t.Helper()
		p.stop()
		text, err := os.ReadFile(journal)
		must(t, err)
		must(t, os.Rename(journal, journal+".old")) // so that the copy is another file
		must(t, os.WriteFile(journal, text, 0o600))
		must(t, os.Remove(journal+".old"))
		p = s.start(flags...)
		_, err = whoAmI(t, p.dial(t, insecure.NewCredentials(), made.GetText()))
		return err
	}
	must(t, copied("--moved"))
	wantReason(t, "a token of a copied store", copied(), codes.Unauthenticated, "TOKEN_INVALID")
	p.logs(t, "created tokens and sessions are revoked")
	list, err := p.admin.ListTokens(within(t), &tooldv1.ListTokensRequest{})
	must(t, err)
	if len(list.GetTokens()) != 0 {
		t.Errorf("the store still has %v", list.GetTokens())
	}
}
