package grpcserver_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func TestListSecrets(t *testing.T) {
	w := newWorld(t, options{})
	for _, check := range []bool{false, true} {
		got, err := tooldv1.NewAdminServiceClient(w.as("adam")).ListSecrets(within(t), &tooldv1.ListSecretsRequest{Check: check})
		must(t, err)
		s := got.GetSecrets()
		if len(s) != 2 || s[0].GetName() != "db" || s[0].GetBackend() != "file" || s[0].GetAllow()[0].GetTools()[0] != "report" || (s[0].GetRead() != nil) != check || (s[0].GetProblem() != "") != check {
			t.Errorf("check %t: %v", check, s)
		}
	}
}

// TestT117SecretsOfOtherNamespaces (T117) checks that an operator sees only the secrets that its namespace may use. It sees neither where
// they are stored nor which other namespaces may use them.
func TestT117SecretsOfOtherNamespaces(t *testing.T) {
	w := newWorld(t, options{})
	for user, want := range map[string]int{"oscar": 1, "mallory": 2} {
		admin := tooldv1.NewAdminServiceClient(w.as(user))
		got, err := admin.ListSecrets(within(t), &tooldv1.ListSecretsRequest{})
		must(t, err)
		if len(got.GetSecrets()) != want {
			t.Errorf("%s sees %v", user, got.GetSecrets())
		}
		for _, s := range got.GetSecrets() {
			namespaces := s.GetAllow()[0].GetNamespaces()
			if s.GetPlace() != "" || len(namespaces) != 1 || namespaces[0] != map[string]string{"oscar": "default", "mallory": "other"}[user] {
				t.Errorf("%s sees %v", user, s)
			}
		}
		_, err = admin.ListSecrets(within(t), &tooldv1.ListSecretsRequest{Check: true})
		wantRefusal(t, err, codes.PermissionDenied, "ROLE_REQUIRED")
	}
}
