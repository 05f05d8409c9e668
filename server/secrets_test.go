package server_test

import (
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func TestListSecrets(t *testing.T) {
	w := newWorld(t, options{})
	for _, check := range []bool{false, true} {
		got, err := tooldv1.NewAdminServiceClient(w.as("oscar")).ListSecrets(within(t), &tooldv1.ListSecretsRequest{Check: check})
		must(t, err)
		s := got.GetSecrets()
		if len(s) != 1 || s[0].GetName() != "db" || s[0].GetBackend() != "file" || s[0].GetAllow()[0].GetTools()[0] != "report" || (s[0].GetRead() != nil) != check || (s[0].GetProblem() != "") != check {
			t.Errorf("check %t: %v", check, s)
		}
	}
}
