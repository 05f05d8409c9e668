package daemon

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/cli"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// with returns a connection to the daemon with a token.
func (p *proc) with(token string) *grpc.ClientConn {
	p.t.Helper()
	c, err := grpc.NewClient(p.ready.TCP, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(token)))
	must(p.t, err)
	p.t.Cleanup(func() { c.Close() })
	return c
}

// works reports whether the daemon accepts a token.
func (p *proc) works(token string) bool {
	p.t.Helper()
	_, err := tooldv1.NewAdminServiceClient(p.with(token)).GetInfo(within(p.t), &tooldv1.GetInfoRequest{})
	if err != nil && status.Code(err) != codes.Unauthenticated {
		p.t.Fatal(err)
	}
	return err == nil
}

// TestTokensOfTheCommandLine creates, lists and revokes tokens with the commands, while the daemon is killed and restarted. No file of the
// daemon and no line of its log contains the text of a token.
func TestTokensOfTheCommandLine(t *testing.T) {
	s := newSite(t, "")
	serve := func() *proc { return s.start("--listen-http", "127.0.0.1:0") }
	p := serve()
	create := func(args ...string) (id, text string) {
		r := new(run).do(t, s.data, append([]string{"token", "create"}, args...)...)
		id, _, _ = strings.Cut(r.err, " is valid until ")
		if text = strings.TrimSpace(r.out); r.code != 0 || !strings.HasPrefix(text, "toold_token_") || !strings.HasPrefix(id, "cred-") {
			t.Fatalf("create = %d %q %q", r.code, r.out, r.err)
		}
		return id, text
	}
	ciID, ci := create("ci", "--role", "caller")
	_, bot := create("bot", "--role", "viewer", "--role", "worker", "--subject", "bot", "--namespace", "b", "--expires", "1h")
	p.kill()

	p = serve()
	info, err := tooldv1.NewAdminServiceClient(p.with(bot)).GetInfo(within(t), &tooldv1.GetInfoRequest{})
	if err != nil || info.GetNamespace() != "b" || !p.works(ci) {
		t.Errorf("after a restart: %v, %v, ci %t", info, err, p.works(ci))
	}
	if r := new(run).do(t, s.data, "token", "list"); !strings.Contains(r.out, ciID) || strings.Contains(r.out, "bot") {
		t.Errorf("list = %s %s", r.out, r.err)
	}
	login := new(run).do(t, s.data, "login")
	base, secret, _ := strings.Cut(strings.TrimSpace(login.out), "/login#")
	if port := p.ready.HTTP[strings.LastIndex(p.ready.HTTP, ":"):]; !strings.HasSuffix(base, ".localhost"+port) || !strings.HasPrefix(secret, "toold_login_") {
		t.Errorf("login = %q %q, want a link to %s", login.out, login.err, p.ready.HTTP)
	}
	new(run).do(t, s.data, "token", "revoke", ciID).expect(t, 0, ciID+" revoked, with 0 that it created\n")
	new(run).do(t, s.data, "token", "revoke", ciID).expect(t, cli.ExitNotFound, "", "there is no stored credential")
	new(run).do(t, s.data, "token", "create", "x").expect(t, cli.ExitUsage, "", "a token needs --role")
	new(run).do(t, s.data, "token", "create", "x", "--role", "king").expect(t, cli.ExitUsage, "", "want caller")
	new(run).do(t, s.data, "token", "create", "x", "--role", "caller", "--expires", "never").expect(t, cli.ExitUsage, "", "is not a duration")
	p.kill()

	p = serve()
	if p.works(ci) || !p.works(bot) {
		t.Error("a revoked token works after a restart, or another one does not")
	}
	must(t, filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, text := range []string{ci, bot, secret} {
			if bytes.Contains(content, []byte(text)) {
				t.Errorf("%s contains a token", path)
			}
		}
		return err
	}))
	for _, text := range []string{ci, bot, secret} {
		if strings.Contains(p.log.String(), text) {
			t.Error("a token is in the log")
		}
	}
}

// TestT137ReloadRemovesToken (T137) checks a token that the configuration no longer has. The reload ends its streams, and also the streams
// of the tokens that were created with this token. The reload also makes a new token valid.
func TestT137ReloadRemovesToken(t *testing.T) {
	s := newSite(t, "")
	config := s.rules + ".config"
	text := func(name string) string { return name + strings.Repeat("-0123456789", 3) }
	write := func(names ...string) {
		file := "auth:\n  tokens:\n"
		for _, name := range names {
			file += fmt.Sprintf("    - {name: %s, roles: [caller, operator], hash: 'sha256:%x'}\n", name, sha256.Sum256([]byte(text(name))))
		}
		must(t, os.WriteFile(config, []byte(file), 0o600))
	}
	write("ann", "bob")
	p := s.start("--config", config)
	watch := func(token string) *aStream {
		stream, err := tooldv1.NewCallServiceClient(p.with(token)).WatchCalls(within(t), &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true})
		s := follow(t, stream, err)
		eventually(t, "the stream begins", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			must(t, s.err)
			return len(s.frames) > 0
		})
		return s
	}
	made, err := tooldv1.NewAdminServiceClient(p.with(text("bob"))).CreateToken(within(t), &tooldv1.CreateTokenRequest{Name: "child", Roles: []tooldv1.Role{tooldv1.Role_ROLE_OPERATOR}})
	must(t, err)
	ann, bob, child := watch(text("ann")), watch(text("bob")), watch(made.GetText())
	write("ann", "cid")
	resp, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	if err != nil || strings.Join(resp.GetChanged(), " ") != "auth.tokens" || len(resp.GetNeedsRestart()) > 0 {
		t.Fatalf("reloaded %v, %v", resp, err)
	}
	for _, ended := range []*aStream{bob, child} {
		<-ended.done
		if reasonOf(ended.err) != "TOKEN_REVOKED" {
			t.Errorf("ended with %v", ended.err)
		}
	}
	select {
	case <-ann.done:
		t.Errorf("the stream of ann ended with %v", ann.err)
	default:
	}
	if p.works(text("bob")) || p.works(made.GetText()) || !p.works(text("cid")) {
		t.Error("a removed token works, or a new one does not")
	}
	write("ann", "ann")
	if _, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{}); reasonOf(err) != "CONFIG_INVALID" || !p.works(text("cid")) {
		t.Errorf("a configuration with the same token twice: %v", err)
	}
}
