package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
)

// An issuer is an OpenID Connect issuer on the loopback address.
type issuer struct {
	t   *testing.T
	url string
	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, key: newKey(t)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "a"}}})
		} else {
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.url, "jwks_uri": i.url + "/keys"})
		}
	}))
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

// token returns a token that is valid for an hour, with changes of its claims.
func (i *issuer) token(changes map[string]any) string {
	i.t.Helper()
	claims := map[string]any{"iss": i.url, "sub": "alice", "aud": "toold", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(claims, changes)
	text, err := json.Marshal(claims)
	must(i.t, err)
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "a"}}, nil)
	must(i.t, err)
	signed, err := s.Sign(text)
	must(i.t, err)
	token, err := signed.CompactSerialize()
	must(i.t, err)
	return token
}

func (i *issuer) settings(more string) string {
	return "auth:\n  issuers:\n    - {name: corp, url: '" + i.url + "', audiences: [toold], namespace: default, roles: [caller, viewer]" + more + "}\n"
}

// dial connects to a daemon. With an empty token, the client sends no token.
func (p *proc) dial(t *testing.T, secure credentials.TransportCredentials, token string) tooldv1.CallServiceClient {
	t.Helper()
	o := []grpc.DialOption{grpc.WithTransportCredentials(secure)}
	if token != "" {
		o = append(o, grpc.WithPerRPCCredentials(bearer(token)))
	}
	conn, err := grpc.NewClient(p.ready.TCP, o...)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return tooldv1.NewCallServiceClient(conn)
}

// whoAmI calls a tool and returns the caller that the daemon recorded.
func whoAmI(t *testing.T, c tooldv1.CallServiceClient) (*tooldv1.Principal, error) {
	t.Helper()
	got, err := c.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "grep", Arguments: `{"pattern":"nothing"}`}})
	return got.GetCall().GetCaller(), err
}

func wantReason(t *testing.T, what string, err error, code codes.Code, reason string) {
	t.Helper()
	if status.Code(err) != code || reasonOf(err) != reason {
		t.Errorf("%s: %v, want %v %s", what, err, code, reason)
	}
}

// follows opens a stream that ends only with its credential, and waits for its first frame.
func follows(t *testing.T, c tooldv1.CallServiceClient) (grpc.ServerStreamingClient[tooldv1.WatchCallsResponse], error) {
	t.Helper()
	stream, err := c.WatchCalls(within(t), &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true})
	must(t, err)
	_, err = stream.Recv()
	return stream, err
}

// ended reads a stream to its end.
func ended(stream grpc.ServerStreamingClient[tooldv1.WatchCallsResponse]) (err error) {
	for err == nil {
		_, err = stream.Recv()
	}
	return err
}

// TestT59SignedTokens (T59) uses tokens of an issuer over gRPC and HTTP. A stream ends with its token, and when a reload removes the issuer.
func TestT59SignedTokens(t *testing.T) {
	i, s := newIssuer(t), newSite(t, "")
	file := filepath.Join(filepath.Dir(s.data), "toold.yaml")
	must(t, os.WriteFile(file, []byte(i.settings("")), 0o600))
	p := s.start("--config", file, "--listen-http", "127.0.0.1:0")
	b := browserOf(t, p)
	defer http.DefaultClient.CloseIdleConnections()

	caller, err := whoAmI(t, p.dial(t, insecure.NewCredentials(), i.token(nil)))
	must(t, err)
	if caller.GetSubject() != "corp:alice" || caller.GetMethod() != "jwt" {
		t.Errorf("the token is %v", caller)
	}
	if code, text := b.do("POST", tooldv1.CallService_CallTool_FullMethodName, i.token(nil), curlBody); code != http.StatusOK || !strings.Contains(text, "corp:alice") {
		t.Errorf("HTTP: %d %s", code, text)
	}
	stranger := &issuer{t, i.url, newKey(t)}
	for what, token := range map[string]string{"another key": stranger.token(nil), "another audience": i.token(map[string]any{"aud": "other"})} {
		_, err := whoAmI(t, p.dial(t, insecure.NewCredentials(), token))
		wantReason(t, what, err, codes.Unauthenticated, "TOKEN_INVALID")
		if code, text := b.do("POST", tooldv1.CallService_CallTool_FullMethodName, token, curlBody); code != http.StatusUnauthorized {
			t.Errorf("HTTP, %s: %d %s", what, code, text)
		}
	}
	long, err := follows(t, p.dial(t, insecure.NewCredentials(), i.token(map[string]any{"sub": "bob"})))
	must(t, err)
	for left := time.Second; ; left *= 2 { // on a busy machine the stream may take longer to open than the token is valid
		end := time.Now().Add(left)
		stream, err := follows(t, p.dial(t, insecure.NewCredentials(), i.token(map[string]any{"exp": float64(end.Add(-time.Minute).UnixMilli()) / 1000})))
		if err != nil {
			wantReason(t, "open", err, codes.Unauthenticated, "TOKEN_EXPIRED")
			continue
		}
		wantReason(t, "stream", ended(stream), codes.Unauthenticated, "TOKEN_EXPIRED")
		if early := time.Until(end); early > 0 {
			t.Errorf("the stream ended %v before its token", early)
		}
		break
	}

	watchesOn(t, p, i)

	must(t, os.WriteFile(file, []byte(i.settings(", keys: none.json")), 0o600))
	_, err = p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	wantReason(t, "a file that is missing", err, codes.FailedPrecondition, "CONFIG_INVALID")
	_, err = whoAmI(t, p.dial(t, insecure.NewCredentials(), i.token(nil)))
	must(t, err)
	must(t, os.WriteFile(file, []byte("auth: {issuers: []}\n"), 0o600))
	done, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	if strings.Join(done.GetChanged(), " ") != "auth" || len(done.GetNeedsRestart()) > 0 {
		t.Errorf("reloaded %v", done)
	}
	wantReason(t, "stream", ended(long), codes.Unavailable, "ACCESS_CHANGED")
	_, err = whoAmI(t, p.dial(t, insecure.NewCredentials(), i.token(nil)))
	wantReason(t, "removed issuer", err, codes.Unauthenticated, "TOKEN_INVALID")
}

// watchesOn checks that a client of the Go SDK whose token expires during a watch continues with its next token, and misses nothing.
func watchesOn(t *testing.T, p *proc, i *issuer) {
	t.Helper()
	end := time.Now().Add(time.Second)
	short, long := i.token(map[string]any{"exp": float64(end.Add(-time.Minute).UnixMilli()) / 1000}), i.token(nil)
	var asked atomic.Int32
	client, err := toold.Dial(p.ready.TCP, toold.WithTokenSource(func(context.Context) (string, error) {
		if asked.Add(1); time.Now().Before(end) {
			return short, nil
		}
		return long, nil
	}))
	must(t, err)
	defer client.Close()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	time.AfterFunc(time.Until(end.Add(50*time.Millisecond)), func() {
		_, _ = p.calls.CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "grep", Arguments: `{"pattern":"nothing"}`, CallId: "after-the-first-token"}})
	})
	for f, err := range client.Watch(ctx, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true}) {
		must(t, err)
		for _, e := range f.GetEvents() {
			if e.GetCallId() == "after-the-first-token" && e.GetFinished() != nil {
				if asked.Load() < 2 {
					t.Error("the client has one token only")
				}
				return
			}
		}
	}
	t.Error("the watch ended")
}

// An authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = a.sign(template, template, a.key)
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	must(a.t, err)
	cert, err := x509.ParseCertificate(der)
	must(a.t, err)
	return cert
}

// issue returns a certificate for the loopback address, or for a client.
func (a *authority) issue(name string, uris ...string) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, text := range uris {
		u, err := url.Parse(text)
		must(a.t, err)
		template.URIs = append(template.URIs, u)
	}
	key := newKey(a.t)
	return tls.Certificate{Certificate: [][]byte{a.sign(template, a.cert, key).Raw}, PrivateKey: key}
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// writeTLS writes a certificate for the listeners.
func (s *site) writeTLS(pair tls.Certificate) {
	s.t.Helper()
	dir := filepath.Dir(s.data)
	writePEM(s.t, filepath.Join(dir, "tls.crt"), "CERTIFICATE", pair.Certificate[0])
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	must(s.t, err)
	writePEM(s.t, filepath.Join(dir, "tls.key"), "PRIVATE KEY", der)
}

// TestCertificates uses client certificates in place of tokens, and replaces the files of the listener by a reload.
func TestCertificates(t *testing.T) {
	first, second, s := newAuthority(t), newAuthority(t), newSite(t, "")
	dir := filepath.Dir(s.data)
	s.writeTLS(first.issue("server-1"))
	writePEM(t, filepath.Join(dir, "ca.pem"), "CERTIFICATE", first.cert.Raw)
	file := filepath.Join(dir, "toold.yaml")
	must(t, os.WriteFile(file, []byte(strings.ReplaceAll(`
tls: {cert: DIR/tls.crt, key: DIR/tls.key, client_ca: DIR/ca.pem}
auth:
  certificates:
    - {match: 'spiffe://prod.example/agents/*', roles: [caller, viewer]}
    - {match: CN=ci, subject: ci, roles: [caller]}
`, "DIR", dir)), 0o600))
	p := s.start("--config", file, "--listen-http", "127.0.0.1:0")
	conn, err := grpc.NewClient("unix:"+p.ready.Unix, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	admin := tooldv1.NewAdminServiceClient(conn)
	roots := x509.NewCertPool()
	roots.AddCert(first.cert)
	roots.AddCert(second.cert)
	from := func(pair tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
	}
	planner, ci := first.issue("x", "spiffe://prod.example/agents/planner"), first.issue("ci")
	as := func(pair tls.Certificate, token string) tooldv1.CallServiceClient {
		return p.dial(t, credentials.NewTLS(from(pair)), token)
	}
	for subject, pair := range map[string]tls.Certificate{"spiffe://prod.example/agents/planner": planner, "ci": ci} {
		caller, err := whoAmI(t, as(pair, ""))
		must(t, err)
		if caller.GetSubject() != subject || caller.GetMethod() != "certificate" {
			t.Errorf("the certificate is %v, want %s", caller, subject)
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: from(pair), ForceAttemptHTTP2: true}}
		resp, err := client.Post(p.ready.HTTP+tooldv1.CallService_CallTool_FullMethodName, "application/json", strings.NewReader(curlBody))
		must(t, err)
		must(t, resp.Body.Close())
		if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
			t.Errorf("HTTP as %s: %s %s", subject, resp.Proto, resp.Status)
		}
		client.CloseIdleConnections()
	}
	token, err := os.ReadFile(p.ready.TokenFile)
	must(t, err)
	caller, err := whoAmI(t, as(ci, strings.TrimSpace(string(token))))
	must(t, err)
	if caller.GetSubject() != "local" {
		t.Errorf("the token with a certificate is %v", caller)
	}
	_, err = whoAmI(t, as(first.issue("eve", "spiffe://prod.example/other"), ""))
	wantReason(t, "a certificate without an entry", err, codes.Unauthenticated, "TOKEN_REQUIRED")

	open, err := follows(t, as(planner, ""))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("broken"), 0o600))
	_, err = admin.Reload(within(t), &tooldv1.ReloadRequest{})
	wantReason(t, "a broken certificate", err, codes.FailedPrecondition, "CONFIG_INVALID")
	if name := serverName(t, p.ready.TCP, from(ci)); name != "server-1" {
		t.Errorf("after a broken reload, the server is %s", name)
	}
	web, err := tls.Dial("tcp", strings.TrimPrefix(p.ready.HTTP, "https://"), from(ci))
	must(t, err)
	defer web.Close()
	must(t, web.SetDeadline(time.Now().Add(hangs)))
	s.writeTLS(second.issue("server-2"))
	writePEM(t, filepath.Join(dir, "ca.pem"), "CERTIFICATE", second.cert.Raw)
	done, err := admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	if strings.Join(done.GetChanged(), " ") != "tls" || len(done.GetNeedsRestart()) > 0 {
		t.Errorf("reloaded %v", done)
	}
	for _, address := range []string{p.ready.TCP, strings.TrimPrefix(p.ready.HTTP, "https://")} {
		if name := serverName(t, address, from(second.issue("ci"))); name != "server-2" {
			t.Errorf("after the reload, the server at %s is %s", address, name)
		}
	}
	_, err = whoAmI(t, as(second.issue("ci"), ""))
	must(t, err)
	if _, err = whoAmI(t, as(ci, "")); status.Code(err) != codes.Unavailable { // the handshake fails
		t.Errorf("a certificate of the old authority: %v", err)
	}
	if err := ended(open); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream with a certificate of the old authority ended with %v", err)
	}
	if _, err := io.ReadAll(web); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection of HTTP with a certificate of the old authority: %v", err)
	}

	// A reload with the same authority ends no stream. A reload that removes the entries of auth.certificates ends the stream with a reason.
	open, err = follows(t, as(second.issue("x", "spiffe://prod.example/agents/second"), ""))
	must(t, err)
	s.writeTLS(second.issue("server-3"))
	_, err = admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	must(t, os.WriteFile(file, []byte(strings.ReplaceAll(`tls: {cert: DIR/tls.crt, key: DIR/tls.key, client_ca: DIR/ca.pem}`, "DIR", dir)), 0o600))
	_, err = admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	wantReason(t, "the stream whose entry was removed", ended(open), codes.Unavailable, "ACCESS_CHANGED")
}

// serverName returns the common name of the certificate that a server shows in a handshake.
func serverName(t *testing.T, address string, c *tls.Config) string {
	t.Helper()
	d := tls.Dialer{Config: c}
	conn, err := d.DialContext(within(t), "tcp", address)
	must(t, err)
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName //nolint:forcetypeassert // a tls.Dialer returns no other type
}

// TestPageOfIdentities checks each configuration on the page about identities.
func TestPageOfIdentities(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	s := &site{t: t, data: filepath.Join(dir, "data")}
	s.writeTLS(a.issue("server"))
	writePEM(t, filepath.Join(dir, "clients.pem"), "CERTIFICATE", a.cert.Raw)
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: newKey(t).Public(), KeyID: "a"}}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "issuer-keys.json"), keys, 0o600))
	blocks := strings.Split(readText(t, "../docs/how-to/authenticate-clients.md"), "```yaml\n# toold.yaml\n")[1:]
	if len(blocks) != 5 {
		t.Fatalf("the page has %d configurations", len(blocks))
	}
	for _, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		cfg, err := load(t, strings.ReplaceAll(text, "/etc/toold", dir), nil, "--data", filepath.Join(dir, "data"), "--workspace", t.TempDir())
		must(t, err)
		if _, err := check(context.Background(), cfg, options{}); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

func TestIdentitySettingsThatAreRefused(t *testing.T) {
	const issuer = "auth: {issuers: [{name: a, url: 'https://a.example', audiences: [toold], namespace: default, roles: [caller]"
	for text, want := range map[string]string{
		issuer + ", namespace_claim: tenant}]}":                                        "set either namespace or namespace_claim",
		issuer + ", authority: ca.pem, keys: keys.json}]}":                             "is not used with keys",
		issuer + "}, {name: a, url: 'https://b.example', audiences: [b]}]}":            `"a" is set twice`,
		strings.Replace(issuer, "roles: [caller]", "", 1) + "}]}":                      "set roles, groups or both",
		strings.Replace(issuer, "https", "http", 1) + "}]}":                            "is not https",
		strings.Replace(issuer, "name: a", "name: 'a:b'", 1) + "}]}":                   "is not a name",
		strings.Replace(issuer, "name: a", "name: spiffe", 1) + "}]}":                  "could equal those of client certificates",
		strings.Replace(issuer, "namespace: default", "namespace_claim: c", 1) + "}]}": "list the namespaces",
		issuer + ", keys: /no/keys.json}]}":                                            "no such file",
		issuer + ", groups: [{group: g, roles: [root]}]}]}":                            `"root" is not one of`,
		"auth: {peers: [{user: no-such-user, roles: [caller]}]}":                       "no user",
		fmt.Sprintf("auth: {peers: [{user: '%d', roles: [caller]}]}", os.Getuid()):     "is the user of the daemon",
		"auth: {certificates: [{match: CN=a, roles: [caller]}]}":                       "needs tls.client_ca",
		issuer + ", groups: [{group: ' g', roles: [caller]}]}]}":                       `" g" is not the name of a group`,
		"auth: {approver_groups: [{groups: ['']}]}":                                    "entry 1 is empty",
		`auth: {approver_groups: [{groups: ["a\nb"]}]}`:                                "is not the name of a group",
	} {
		cfg, err := load(t, text, nil, "--data", t.TempDir(), "--workspace", t.TempDir())
		if err == nil {
			_, err = check(context.Background(), cfg, options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %s", text, err, want)
		}
	}
}

// TestPeers checks that a configured user of the machine needs no token, that another user is refused, and that a reload changes which user
// is configured. Only root can act as other users, so most of the test needs root.
func TestPeers(t *testing.T) {
	s := newSite(t, "")
	dir := filepath.Dir(s.data)
	must(t, os.Chmod(dir, 0o755))
	file, socket := filepath.Join(dir, "toold.yaml"), filepath.Join(dir, "toold.sock")
	must(t, os.WriteFile(file, []byte("auth: {peers: [{user: '65533', subject: ci, roles: [caller, viewer]}]}"), 0o600))
	p := s.start("--config", file, "--listen-unix", socket)
	if info, err := os.Stat(p.ready.Unix); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("socket: %v, %v", info, err)
	}
	if os.Getuid() != 0 {
		return
	}
	caller, err := whoAmI(t, dialAs(t, socket, 65533))
	must(t, err)
	if caller.GetSubject() != "ci" || caller.GetMethod() != "peer" {
		t.Errorf("the user is %v", caller)
	}
	third := dialAs(t, socket, 65532)
	_, err = whoAmI(t, third)
	wantReason(t, "another user", err, codes.Unauthenticated, "PEER_NOT_ALLOWED")

	// A reload replaces the users. The streams and tokens of a removed user end. When the list is empty, only the user of the daemon can
	// open the socket.
	ci := dialAs(t, socket, 65533)
	open, err := follows(t, ci)
	must(t, err)
	must(t, os.WriteFile(file, []byte("auth: {peers: [{user: '65532', subject: third, roles: [caller, viewer]}]}"), 0o600))
	done, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	if strings.Join(done.GetChanged(), " ") != "auth.peers" || len(done.GetNeedsRestart()) > 0 {
		t.Errorf("reloaded %v", done)
	}
	wantReason(t, "the stream of a removed user", ended(open), codes.Unauthenticated, "PEER_NOT_ALLOWED")
	_, err = whoAmI(t, ci)
	wantReason(t, "a removed user", err, codes.Unauthenticated, "PEER_NOT_ALLOWED")
	caller, err = whoAmI(t, third)
	must(t, err)
	if caller.GetSubject() != "third" {
		t.Errorf("the added user is %v", caller)
	}
	must(t, os.WriteFile(file, nil, 0o600))
	_, err = p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	if info, err := os.Stat(p.ready.Unix); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("without users, the socket is %v, %v", info, err)
	}
}

// dialAs connects to a unix socket as another user. The kernel reports the effective user of the thread that connects.
func dialAs(t *testing.T, socket string, uid uintptr) tooldv1.CallServiceClient {
	t.Helper()
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		const keep = ^uintptr(0)
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, uid, keep); errno != 0 {
			return nil, errno
		}
		defer syscall.RawSyscall(syscall.SYS_SETRESUID, keep, 0, keep)
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	conn, err := grpc.NewClient("passthrough:///local", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return tooldv1.NewCallServiceClient(conn)
}
