package access_test

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
)

// memoryStore is a store in memory. fail is the error of the next write.
type memoryStore struct {
	mu   sync.Mutex
	kept map[string]access.Stored
	fail error
	temp time.Time // when the configured token of temp expires
}

func (s *memoryStore) write(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail; err != nil {
		s.fail = nil
		return err
	}
	f()
	return nil
}

func (s *memoryStore) Put(_ context.Context, c *access.Stored) error {
	return s.write(func() { s.kept[c.ID] = *c })
}

func (s *memoryStore) Remove(_ context.Context, c *access.Stored) error {
	return s.write(func() { delete(s.kept, c.ID) })
}

func (s *memoryStore) all() []access.Stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.kept))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// textOf returns the text of a configured token.
func textOf(subject string) string { return subject + "-0123456789abcdefghijklmnop" }

func configured(namespace, subject string, expires time.Time, roles ...string) access.Token {
	sum := sha256.Sum256([]byte(textOf(subject)))
	return access.Token{Hash: hex.EncodeToString(sum[:]), Expires: expires, Principal: tool.Principal{Namespace: namespace, Subject: subject, Roles: roles}}
}

// people returns the configured tokens.
func (s *memoryStore) people() []access.Token {
	return []access.Token{
		configured("default", "root", time.Time{}, "caller", "operator", "admin"),
		configured("b", "olga", time.Time{}, "caller", "approver", "operator"),
		configured("b", "vera", time.Time{}, "viewer"),
		configured("b", "temp", s.temp, "operator"),
	}
}

// start returns an Auth that has loaded the stored credentials, like the Auth of a daemon after its start.
func start(t testing.TB, s *memoryStore) *access.Auth {
	t.Helper()
	a, err := access.NewAuth(s.people(), []access.Peer{{UID: 7, Principal: tool.Principal{Namespace: "default", Subject: "local", Roles: []string{"caller", "approver", "operator", "admin"}}}})
	must(t, err)
	must(t, a.Keep(s, s.all()))
	return a
}

func newMemoryStore() *memoryStore {
	return &memoryStore{kept: map[string]access.Stored{}, temp: time.Now().Add(time.Hour)}
}

// as returns the identity of a token.
func as(t testing.TB, a *access.Auth, text string) *access.Identity {
	t.Helper()
	id, err := a.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + text}})
	must(t, err)
	return id
}

func wantReason(t testing.TB, err error, reason string) {
	t.Helper()
	r, ok := errors.AsType[*call.Refusal](err)
	if !ok || r.Reason != reason && (reason != "INVALID_ARGUMENT" || r.Kind != call.InvalidArgument) {
		t.Fatalf("error = %v, want %s", err, reason)
	}
}

func grant(roles ...string) access.Grant {
	return access.Grant{Name: "ci", Roles: roles, Expires: time.Now().Add(24 * time.Hour)}
}

// TestT137GrantBeyondCreator (T137) checks that nobody creates a token that permits more than its own credential.
func TestT137GrantBeyondCreator(t *testing.T) {
	a := start(t, newMemoryStore())
	with := func(g access.Grant, f func(*access.Grant)) access.Grant { f(&g); return g }
	tests := []struct {
		name   string
		by     string
		g      access.Grant
		reason string // empty means that the token is created
	}{
		{"own roles", "olga", grant("caller", "operator"), ""},
		{"fewer roles", "olga", grant("caller"), ""},
		{"a worker, which an operator may connect", "olga", grant("worker"), ""},
		{"admin", "olga", grant("operator", "admin"), "GRANT_EXCEEDED"},
		{"delegate", "olga", grant("delegate"), "GRANT_EXCEEDED"},
		{"another namespace", "olga", with(grant("operator"), func(g *access.Grant) { g.Namespace = "default" }), "GRANT_EXCEEDED"},
		{"a second subject, which could approve its own calls", "olga", with(grant("approver"), func(g *access.Grant) { g.Subject = "oscar" }), "GRANT_EXCEEDED"},
		{"an admin, another namespace and subject", "root", with(grant("operator"), func(g *access.Grant) { g.Namespace, g.Subject = "b", "oscar" }), ""},
		{"an admin, a role that it does not have", "root", grant("approver"), "GRANT_EXCEEDED"},
		{"the daemon itself", "root", with(grant("caller"), func(g *access.Grant) { g.Subject = "toold" }), "INVALID_ARGUMENT"},
		{"a name that reverses the text after it", "olga", with(grant("caller"), func(g *access.Grant) { g.Name = "ci\u202e" }), "INVALID_ARGUMENT"},
		{"a subject with a control character", "root", with(grant("caller"), func(g *access.Grant) { g.Subject = "olga\n" }), "INVALID_ARGUMENT"},
		{"a subject with an invisible character", "root", with(grant("caller"), func(g *access.Grant) { g.Subject = "toold\u200b" }), "INVALID_ARGUMENT"},
		{"a namespace with an escape sequence", "root", with(grant("caller"), func(g *access.Grant) { g.Namespace = "b\x1b[2J" }), "INVALID_ARGUMENT"},
		{"a long namespace", "root", with(grant("caller"), func(g *access.Grant) { g.Namespace = strings.Repeat("b", 257) }), "INVALID_ARGUMENT"},
		{"no name", "olga", with(grant("caller"), func(g *access.Grant) { g.Name = "" }), "INVALID_ARGUMENT"},
		{"no role", "olga", grant(), "INVALID_ARGUMENT"},
		{"an unknown role", "olga", grant("root"), "INVALID_ARGUMENT"},
		{"two years", "olga", with(grant("caller"), func(g *access.Grant) { g.Expires = time.Now().AddDate(2, 0, 0) }), "INVALID_ARGUMENT"},
		{"no expiry", "olga", with(grant("caller"), func(g *access.Grant) { g.Expires = time.Time{} }), "INVALID_ARGUMENT"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			by := as(t, a, textOf(tt.by))
			text, s, err := a.Create(t.Context(), by, tt.g)
			if tt.reason != "" {
				wantReason(t, err, tt.reason)
				return
			}
			must(t, err)
			id := as(t, a, text)
			if id.Namespace != s.Principal.Namespace || !slices.Equal(id.Roles, s.Principal.Roles) || !strings.HasPrefix(text, "toold_token_") {
				t.Errorf("%q is %+v, want %+v", text, id, s.Principal)
			}
		})
	}
}

// TestT137GrantReadOnly (T137) checks that a read-only credential can change nothing, and can create only read-only credentials.
func TestT137GrantReadOnly(t *testing.T) {
	a, table := start(t, newMemoryStore()), access.Table()
	g := grant("operator", "caller")
	g.ReadOnly = true
	text, _, err := a.Create(t.Context(), as(t, a, textOf("olga")), g)
	must(t, err)
	id := as(t, a, text)
	_, _, err = a.Create(t.Context(), id, grant("caller"))
	wantReason(t, err, "GRANT_EXCEEDED")
	may := func(method string) error { r := table[method]; return r.Permit(id, method) }
	must(t, may("/toold.v1.CallService/ListCalls"))
	wantReason(t, may("/toold.v1.CallService/ExecuteTool"), "READ_ONLY")
	wantReason(t, may("/toold.v1.AdminService/Purge"), "READ_ONLY")
}

// TestT137GrandchildrenEndToo (T137) checks that a token ends with its creator's credential, also when the creator's credential is a
// configured one.
func TestT137GrandchildrenEndToo(t *testing.T) {
	s := newMemoryStore()
	a := start(t, s)
	root, olga := as(t, a, textOf("root")), as(t, a, textOf("olga"))
	child, made, err := a.Create(t.Context(), olga, grant("operator", "caller"))
	must(t, err)
	grandchild, _, err := a.Create(t.Context(), as(t, a, child), grant("caller"))
	must(t, err)
	byRoot, _, err := a.Create(t.Context(), root, grant("caller"))
	must(t, err)
	late := as(t, a, child)
	ctx, stop := as(t, a, grandchild).While(t.Context())
	defer stop()

	n, err := a.Revoke(t.Context(), olga, made.ID)
	must(t, err)
	<-ctx.Done()
	wantReason(t, context.Cause(ctx), "TOKEN_REVOKED")
	if n != 2 || len(s.all()) != 1 {
		t.Errorf("%d credentials ended, and %d are stored; want 2 and 1", n, len(s.all()))
	}
	for _, text := range []string{child, grandchild} {
		_, err := a.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + text}})
		wantReason(t, err, "TOKEN_INVALID")
	}
	_, _, err = a.Create(t.Context(), late, grant("caller")) // The request of late began before its token was revoked.
	wantReason(t, err, "TOKEN_REVOKED")
	_, err = a.Revoke(t.Context(), late, s.all()[0].ID)
	wantReason(t, err, "TOKEN_REVOKED")

	as(t, a, byRoot)
	_, err = a.Replace(t.Context(), s.people()[1:])
	must(t, err)
	_, err = a.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + byRoot}})
	wantReason(t, err, "TOKEN_INVALID")
	if len(s.all()) != 0 {
		t.Errorf("%v is still stored", s.all())
	}
}

// TestT137RevokeOfOthers (T137) checks who may list and revoke a credential.
func TestT137RevokeOfOthers(t *testing.T) {
	a := start(t, newMemoryStore())
	root, olga := as(t, a, textOf("root")), as(t, a, textOf("olga"))
	_, own, err := a.Create(t.Context(), root, grant("caller"))
	must(t, err)
	g := grant("admin")
	g.Namespace = "b"
	_, admin, err := a.Create(t.Context(), root, g)
	must(t, err)
	_, err = a.Revoke(t.Context(), olga, own.ID)
	wantReason(t, err, "TOKEN_NOT_FOUND")
	_, err = a.Revoke(t.Context(), olga, admin.ID)
	wantReason(t, err, "ROLE_REQUIRED")
	_, err = a.List(olga, "default")
	wantReason(t, err, "ROLE_REQUIRED")
	list, err := a.List(root, "b")
	must(t, err)
	if len(list) != 1 || list[0].ID != admin.ID {
		t.Errorf("list = %v", list)
	}
}

// TestReplace checks that a reload ends the requests of removed and changed tokens, and no others.
func TestReplace(t *testing.T) {
	s := newMemoryStore()
	a := start(t, s)
	follow := func(subject string) context.Context {
		ctx, stop := as(t, a, textOf(subject)).While(t.Context())
		t.Cleanup(stop)
		return ctx
	}
	olga, vera, root := follow("olga"), follow("vera"), follow("root")
	changed, err := a.Replace(t.Context(), s.people())
	if err != nil || changed {
		t.Fatalf("Replace = %t, %v; nothing changed", changed, err)
	}
	next := s.people()
	next[1].Principal.Roles = []string{"caller"} // olga loses a role
	next = slices.Delete(next, 2, 3)             // vera is removed
	changed, err = a.Replace(t.Context(), next)
	if err != nil || !changed {
		t.Fatalf("Replace = %t, %v", changed, err)
	}
	<-olga.Done()
	<-vera.Done()
	wantReason(t, context.Cause(vera), "TOKEN_REVOKED")
	if root.Err() != nil || as(t, a, textOf("olga")).Has(access.Operator) {
		t.Error("the token of root ended, or olga is still an operator")
	}
	if _, err := a.Replace(t.Context(), append(next, next[0])); err == nil {
		t.Error("the same hash twice")
	}
	as(t, a, textOf("olga"))
}

// TestStoredCredentialsSurviveRestart checks that a start finds the credentials, except those that ended.
func TestStoredCredentialsSurviveRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemoryStore()
		a := start(t, s)
		olga := as(t, a, textOf("olga"))
		long, _, err := a.Create(t.Context(), olga, grant("caller"))
		must(t, err)
		g := grant("caller")
		g.Expires = time.Now().Add(time.Minute)
		short, _, err := a.Create(t.Context(), olga, g)
		must(t, err)
		capped, of, err := a.Create(t.Context(), as(t, a, textOf("temp")), grant("operator"))
		must(t, err)
		if !of.Expires.Equal(s.temp) {
			t.Errorf("the token of a creator whose credential ends at %v ends at %v", s.temp, of.Expires)
		}
		time.Sleep(2 * time.Minute)
		a = start(t, s)
		as(t, a, long)
		_, err = a.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + short}})
		wantReason(t, err, "TOKEN_INVALID")
		as(t, a, capped)
		for _, c := range s.all() {
			if strings.Contains(long, c.Hash) || c.Hash == "" {
				t.Error("the text is stored")
			}
		}
		broken := append(s.all(), access.Stored{ID: "bad", Kind: "wish"})
		if err := a.Keep(s, broken); err == nil || !strings.Contains(err.Error(), "bad") {
			t.Errorf("Keep = %v, want the broken credential named", err)
		}
		as(t, a, long)
	})
}

// TestLogin checks that a login link gives exactly one session. The session has the rights of the link's creator, and ends when the creator
// loses these rights.
func TestLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemoryStore()
		a := start(t, s)
		link, _, err := a.CreateLogin(t.Context(), as(t, a, textOf("vera")))
		must(t, err)
		_, err = a.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + link}})
		wantReason(t, err, "TOKEN_INVALID")
		s.fail = errors.New("disk")
		if _, _, err := a.Exchange(t.Context(), link); err == nil {
			t.Fatal("a session that is not stored")
		}
		var sessions []string
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				session, expires, err := a.Exchange(t.Context(), link)
				mu.Lock()
				defer mu.Unlock()
				if err == nil && expires.Equal(time.Now().Add(access.SessionTime)) {
					sessions = append(sessions, session)
				} else if err == nil {
					t.Errorf("the session ends at %v", expires)
				}
			})
		}
		all.Wait()
		if len(sessions) != 1 {
			t.Fatalf("%d sessions from one link", len(sessions))
		}
		a = start(t, s)
		_, _, err = a.Exchange(t.Context(), link)
		wantReason(t, err, "LOGIN_INVALID")
		id, err := a.Identify(t.Context(), access.Credential{Session: sessions[0]})
		must(t, err)
		if id.Subject != "vera" || !slices.Equal(id.Roles, []string{"viewer"}) || id.Method != "session" {
			t.Errorf("session = %+v", id)
		}
		_, err = a.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + sessions[0]}})
		wantReason(t, err, "TOKEN_INVALID")
		for _, other := range []string{sessions[0], textOf("vera"), ""} {
			_, _, err = a.Exchange(t.Context(), other)
			wantReason(t, err, "LOGIN_INVALID")
		}
		ctx, stop := id.While(t.Context())
		defer stop()
		must(t, a.EndSession(t.Context(), sessions[0]))
		<-ctx.Done()
		_, err = a.Identify(t.Context(), access.Credential{Session: sessions[0]})
		wantReason(t, err, "SESSION_ENDED")
		must(t, a.EndSession(t.Context(), sessions[0]))

		if a.SetSessionTime(access.SessionTime) || !a.SetSessionTime(time.Hour) {
			t.Error("SetSessionTime does not say what changed")
		}
		again, _, err := a.CreateLogin(t.Context(), as(t, a, textOf("vera")))
		must(t, err)
		if _, expires, err := a.Exchange(t.Context(), again); err != nil || !expires.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("the session ends at %v, %v; want in an hour", expires, err)
		}

		late, _, err := a.CreateLogin(t.Context(), as(t, a, textOf("vera")))
		must(t, err)
		time.Sleep(access.LoginTime)
		_, _, err = a.Exchange(t.Context(), late)
		wantReason(t, err, "LOGIN_INVALID")
	})
}

// TestSessionEndsWithCreator checks that a session, and sessions that it creates, end no later than the credential that created the first
// session.
func TestSessionEndsWithCreator(t *testing.T) {
	s := newMemoryStore()
	a := start(t, s)
	temp := as(t, a, textOf("temp"))
	link, _, err := a.CreateLogin(t.Context(), temp)
	must(t, err)
	first, expires, err := a.Exchange(t.Context(), link)
	must(t, err)
	id, err := a.Identify(t.Context(), access.Credential{Session: first})
	must(t, err)
	link, _, err = a.CreateLogin(t.Context(), id)
	must(t, err)
	second, later, err := a.Exchange(t.Context(), link)
	must(t, err)
	if !expires.Equal(temp.Expires) || !later.Equal(temp.Expires) {
		t.Errorf("the sessions end at %v and %v, the credential at %v", expires, later, temp.Expires)
	}
	_, err = a.Replace(t.Context(), s.people()[:3])
	must(t, err)
	for _, session := range []string{first, second} {
		_, err := a.Identify(t.Context(), access.Credential{Session: session})
		wantReason(t, err, "SESSION_ENDED")
	}
}

// TestStoredBound checks the limit of login links and sessions for a subject. Expired ones do not count.
func TestStoredBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, newMemoryStore())
		vera := as(t, a, textOf("vera"))
		for range access.MaxLogins {
			_, _, err := a.CreateLogin(t.Context(), vera)
			must(t, err)
		}
		_, _, err := a.CreateLogin(t.Context(), vera)
		wantReason(t, err, "TOO_MANY_TOKENS")
		_, _, err = a.CreateLogin(t.Context(), as(t, a, textOf("olga")))
		must(t, err)
		time.Sleep(access.LoginTime)
		_, _, err = a.CreateLogin(t.Context(), vera)
		must(t, err)
		if list, err := a.List(as(t, a, textOf("olga")), ""); err != nil || len(list) != 1 {
			t.Errorf("list = %v, %v", list, err)
		}
	})
}

// TestStoredBoundOfNamespace checks the limit of the credentials of a namespace.
func TestStoredBoundOfNamespace(t *testing.T) {
	s := newMemoryStore()
	p := tool.Principal{Namespace: "b", Subject: "olga", Roles: []string{"caller"}}
	a := start(t, s)
	_, first, err := a.Create(t.Context(), as(t, a, textOf("olga")), grant("caller"))
	must(t, err)
	parent := first.Parent
	for i := range access.MaxStored - 2 { // Each token creates the next one. The time for a change must not grow with the square of the length of this chain.
		id := fmt.Sprint("cred-", i)
		s.kept[id] = access.Stored{ID: id, Kind: access.KindToken, Hash: fmt.Sprintf("%x", sha256.Sum256([]byte(id))), Principal: p, Parent: parent, Expires: s.temp}
		parent = id
	}
	a = start(t, s)
	_, _, err = a.Create(t.Context(), as(t, a, textOf("olga")), grant("caller"))
	must(t, err)
	_, _, err = a.Create(t.Context(), as(t, a, textOf("olga")), grant("caller"))
	wantReason(t, err, "TOO_MANY_TOKENS")
	_, _, err = a.Create(t.Context(), as(t, a, textOf("root")), grant("caller"))
	must(t, err)
	began := time.Now()
	n, err := a.Revoke(t.Context(), as(t, a, textOf("olga")), "cred-0")
	must(t, err)
	if took := time.Since(began); n != access.MaxStored-2 || took > 5*time.Second {
		t.Errorf("%d credentials ended after %v", n, took)
	}
}

// TestOrphansStayAway removes a creator from the configuration while the daemon does not run. A credential that it created must stay
// invalid when the creator is added again.
func TestOrphansStayAway(t *testing.T) {
	s := newMemoryStore()
	a := start(t, s)
	text, _, err := a.Create(t.Context(), as(t, a, textOf("temp")), grant("operator"))
	must(t, err)
	expires := s.temp
	s.temp = expires.Add(time.Second) // A token with another expiry counts as another credential.
	start(t, s)
	s.temp = expires
	a = start(t, s)
	_, err = a.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + text}})
	wantReason(t, err, "TOKEN_INVALID")
}

// TestCreatedByCertificateOrPeer checks two tokens. A token that a certificate created ends with the entry of that certificate. A token
// that a local user created survives a restart.
func TestCreatedByCertificateOrPeer(t *testing.T) {
	s := newMemoryStore()
	a := start(t, s)
	entry := access.CertificateRule{Match: "CN=ci", Principal: tool.Principal{Namespace: "b", Subject: "ci", Roles: []string{"operator"}}}
	set := func(rules ...access.CertificateRule) {
		t.Helper()
		e, err := access.NewExternal(nil, rules)
		must(t, err)
		a.SetExternal(e)
	}
	raw, err := asn1.Marshal(pkix.Name{CommonName: "ci"}.ToRDNSequence())
	must(t, err)
	create := func(c access.Credential) string {
		t.Helper()
		id, err := a.Identify(t.Context(), c)
		must(t, err)
		text, _, err := a.Create(t.Context(), id, grant("operator"))
		must(t, err)
		return text
	}
	set(entry)
	byPeer := create(access.Credential{Local: true, UID: 7})
	byCertificate := create(access.Credential{Certificate: &x509.Certificate{RawSubject: raw, NotAfter: time.Now().Add(time.Hour)}})
	set(entry)
	as(t, a, byCertificate)
	entry.Principal.Roles = []string{"caller"}
	set(entry)
	_, err = a.Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + byCertificate}})
	wantReason(t, err, "TOKEN_INVALID")
	a = start(t, s)
	as(t, a, byPeer)
}
