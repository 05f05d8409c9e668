package access_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
)

// TestT62OnePersonManyCredentials checks that all credentials of a subject are one person, who cannot approve twice. The credentials are a
// local user, a configured token, a token that this user created, and a browser session.
func TestT62OnePersonManyCredentials(t *testing.T) {
	store := &memoryStore{kept: map[string]access.Stored{}}
	olga := configured("b", "olga", time.Time{}, "approver", "operator")
	olga.Principal.Groups = []string{"finance"}
	auth, err := access.NewAuth([]access.Token{olga, configured("b", "vera", time.Time{}, "operator")}, []access.Peer{{UID: 7, Principal: olga.Principal}})
	must(t, err)
	must(t, auth.Keep(store, nil))
	as := func(c access.Credential) *access.Identity {
		t.Helper()
		id, err := auth.Identify(t.Context(), c)
		must(t, err)
		return id
	}
	ids := []*access.Identity{as(access.Credential{Local: true, UID: 7}), as(access.Credential{Authorization: []string{"Bearer " + textOf("olga")}})}
	text, _, err := auth.Create(t.Context(), ids[1], access.Grant{Name: "laptop", Roles: []string{"approver"}, Expires: time.Now().Add(time.Hour)})
	must(t, err)
	link, _, err := auth.CreateLogin(t.Context(), ids[1])
	must(t, err)
	session, _, err := auth.Exchange(t.Context(), link)
	must(t, err)
	ids = append(ids, as(access.Credential{Authorization: []string{"Bearer " + text}}), as(access.Credential{Session: session}))
	for i, id := range ids {
		if id.Subject != "olga" || id.Namespace != "b" || !slices.Equal(id.Groups, olga.Principal.Groups) {
			t.Errorf("credential %d gives %+v", i, id.Principal)
		}
	}
	tests := []struct {
		name  string
		who   tool.Approvers
		not   []string
		wants bool
	}{
		{"one approver", tool.Approvers{Roles: []string{"approver"}}, nil, true},
		{"two approvers", tool.Approvers{Roles: []string{"approver"}, Count: 2}, nil, false},
		{"four eyes", tool.Approvers{Roles: []string{"approver"}}, []string{"olga"}, false},
		{"two people", tool.Approvers{Roles: []string{"approver", "operator"}, Count: 2}, nil, true},
		{"one of the group", tool.Approvers{Roles: []string{"approver"}, Groups: []string{"finance"}}, nil, true},
		{"two of the group", tool.Approvers{Roles: []string{"approver", "operator"}, Groups: []string{"finance"}, Count: 2}, nil, false},
	}
	for _, tt := range tests {
		if got := auth.CanApprove("b", &tt.who, tt.not...); got != tt.wants {
			t.Errorf("%s: CanApprove = %t", tt.name, got)
		}
	}
}

// TestGroupsOfCredentials checks that a credential has groups only from its configuration, or from a creator with the same subject.
func TestGroupsOfCredentials(t *testing.T) {
	store := &memoryStore{kept: map[string]access.Stored{}}
	root := configured("b", "root", time.Time{}, "approver", "operator", "admin")
	root.Principal.Groups = []string{"finance"}
	auth, err := access.NewAuth([]access.Token{root}, nil)
	must(t, err)
	must(t, auth.Keep(store, nil))
	bearer := func(text string) (*access.Identity, error) {
		return auth.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + text}})
	}
	by, err := bearer(textOf("root"))
	must(t, err)
	grant := access.Grant{Name: "other", Subject: "erin", Roles: []string{"approver"}, Expires: time.Now().Add(time.Hour)}
	other, _, err := auth.Create(t.Context(), by, grant)
	must(t, err)
	if id, err := bearer(other); err != nil || len(id.Groups) != 0 {
		t.Errorf("a token for another subject has %+v, %v", id, err)
	}
	grant.Subject, grant.ReadOnly = "", true
	reads, _, err := auth.Create(t.Context(), by, grant)
	must(t, err)
	member := tool.Approvers{Roles: []string{"approver"}, Groups: []string{"finance"}}
	if id, err := bearer(reads); err != nil || !member.Admit(id.Principal) {
		t.Errorf("a token for the same subject has %+v, %v", id, err)
	}
	// A change of the groups changes the rights, so the credentials that this person created end.
	root.Principal.Groups = []string{"hr"}
	if changed, err := auth.Replace(t.Context(), []access.Token{root}); err != nil || !changed {
		t.Errorf("Replace = %t, %v", changed, err)
	}
	if _, err := bearer(reads); err == nil || len(slices.Collect(maps.Keys(store.kept))) != 0 {
		t.Errorf("after the change: %v, stored %v", err, store.kept)
	}
}

// TestReadOnlyCredentialsCannotApprove checks that CanApprove does not count a person who can only read.
func TestReadOnlyCredentialsCannotApprove(t *testing.T) {
	auth, err := access.NewAuth([]access.Token{configured("b", "root", time.Time{}, "caller", "approver", "admin")}, nil)
	must(t, err)
	by, err := auth.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + textOf("root")}})
	must(t, err)
	others := func() bool { return auth.CanApprove("b", &tool.Approvers{Roles: []string{"approver"}}, "root") }
	grant := access.Grant{Name: "erin", Subject: "erin", Roles: []string{"approver"}, Expires: time.Now().Add(time.Hour), ReadOnly: true}
	_, _, err = auth.Create(t.Context(), by, grant)
	must(t, err)
	if others() {
		t.Error("a read-only token counts as an approver")
	}
	grant.ReadOnly = false
	_, _, err = auth.Create(t.Context(), by, grant)
	must(t, err)
	if !others() {
		t.Error("a stored token does not count as an approver")
	}
}
