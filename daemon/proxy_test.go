package daemon

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// T37, T81: a command reaches the hosts of its profile through the proxy, and the log shows that to the operator. A secret of the profile
// reaches only its host.
func TestT37CommandsBehindAProxy(t *testing.T) {
	t.Parallel()
	const value = "s3cret-of-the-api"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "known=%t %s", r.Header.Get("Authorization") == "Bearer "+value, r.Header.Get("Authorization")) // the response repeats the secret
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	must(t, err)
	s := newSite(t, bashAllowed)
	dir := filepath.Dir(s.rules)
	must(t, os.WriteFile(filepath.Join(dir, "api"), []byte(value+"\n"), 0o600))
	config := filepath.Join(dir, "toold.yaml")
	must(t, os.WriteFile(config, []byte(`
bash: {profile: web}
secrets:
  - {name: api, file: `+filepath.Join(dir, "api")+`, allow: [{tools: ["proxy:web"], parameters: [header.Authorization]}]}
sandbox:
  profiles:
    - name: web
      network: proxy
      hosts: [127.0.0.1]
      ports: [`+port+`]
      addresses: [127.0.0.1]
      headers:
        - {host: 127.0.0.1, name: Authorization, value: "Bearer secret://api"}
`), 0o600))
	p := s.start("--config", config)
	c := p.do(bash("proxy", "curl -sS --noproxy '' http://127.0.0.1:"+port+"/; echo; env | grep -c s3cret; curl -sS -o /dev/null -w '%{http_code}' http://other.test:"+port+"/"))
	text := c.GetResult().GetData() + c.GetResult().GetMessage()
	if !strings.Contains(text, "known=true") || strings.Contains(text, value) || !strings.Contains(text, "403") {
		t.Errorf("%s", text)
	}
	if !held(c.GetIsolation(), "net") || c.GetIsolation().GetNetwork() != tooldv1.NetworkMode_NETWORK_MODE_PROXY {
		t.Errorf("%v", c.GetIsolation())
	}
	for _, want := range []string{`"verdict":"allowed"`, `"host":"127.0.0.1"`, `"verdict":"refused"`, `"host":"other.test"`, `"call_id":"` + c.GetCallId()} {
		p.logs(t, want)
	}
	if strings.Contains(p.log.String(), value) {
		t.Error("the log has the secret")
	}
}

func TestProfilesWithAProxyAreChecked(t *testing.T) {
	t.Parallel()
	for profile, want := range map[string]string{
		"{name: a, network: proxy, hosts: [0x7f.1]}":                                            "ends in a number",
		"{name: a, network: proxy, hosts: ['*.test']}":                                          "host",
		"{name: a, hosts: [a.test]}":                                                            "require the network proxy",
		"{name: a, network: proxy, ports: [0]}":                                                 "ports: 0",
		"{name: a, network: proxy, addresses: [10.0.0.0/99]}":                                   "neither an address nor a prefix",
		"{name: a, network: proxy, landlock: true}":                                             "requires namespaces",
		"{name: a, network: everything}":                                                        "is not none, proxy or open",
		"{name: a, network: proxy, headers: [{host: a.test, name: Host, value: x}]}":            "cannot be added",
		"{name: a, network: proxy, headers: [{host: a.test, name: X, value: \"x\\r\\nY: z\"}]}": "needs a value of one line",
		"{name: a, headers: [{host: a.test, name: X, value: x}]}":                               "headers need the network proxy",
	} {
		if _, err := load(t, "sandbox:\n  profiles:\n    - "+profile+"\n", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", profile, err, want)
		}
	}
}
