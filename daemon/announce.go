package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/toold-dev/toold/cli"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
)

// Ready holds the addresses of a daemon that serves.
type Ready struct {
	Ready     bool   `json:"ready"`             // always true; a standby prints false
	TCP       string `json:"tcp,omitempty"`     // host:port
	TLS       bool   `json:"tls,omitempty"`     // the TCP listener uses TLS
	HTTP      string `json:"http,omitempty"`    // base URL of HTTP, such as http://127.0.0.1:7131
	Unix      string `json:"unix,omitempty"`    // path of the unix socket
	Metrics   string `json:"metrics,omitempty"` // host:port
	TokenFile string `json:"token_file"`        // absolute path
	PID       int    `json:"pid"`
	Epoch     int64  `json:"epoch"`
}

// curlBody is a request that every daemon can serve, because every daemon has the tool grep.
const curlBody = `{"spec":{"tool":"grep","arguments":{"pattern":"TODO"}}}`

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// announce reports the addresses of the daemon. It calls the function of the embedding program, if any. It prints text when the output is a
// terminal, otherwise one line of JSON.
func (d *daemon) announce() error {
	r := Ready{Ready: true, Metrics: d.metricsAt, TokenFile: d.cfg.TokenFile(), PID: os.Getpid(), Epoch: d.store.Identity().Epoch}
	if path, err := filepath.Abs(r.TokenFile); err == nil { // Print an absolute path, because the reader may have another working directory.
		r.TokenFile = path
	}
	for _, a := range d.addresses {
		switch a.Network {
		case "tcp":
			r.TCP, r.TLS = a.Address, a.TLS
		case "http":
			r.HTTP = a.URL()
		default:
			r.Unix = a.Address
		}
	}
	if d.options.ready != nil {
		d.options.ready(r)
	}
	out := d.options.out
	if f, ok := out.(*os.File); !ok || !isTerminal(f) {
		return json.NewEncoder(out).Encode(r)
	}
	_, err := io.WriteString(out, d.welcome(&r, d.login()))
	return err
}

// login returns a new login link for the daemon's own token, or "" when HTTP is not served or the link cannot be created.
func (d *daemon) login() string {
	if d.web == nil {
		return ""
	}
	ctx := access.WithCredential(context.Background(), &access.Credential{Authorization: []string{"Bearer " + d.token}})
	made, err := tooldv1.NewAdminServiceClient(d.service.Conn()).CreateLogin(ctx, &tooldv1.CreateLoginRequest{})
	if err != nil {
		d.log.Warn("no login link", zap.Error(err))
	}
	return made.GetUrl()
}

// welcome returns the text for a person who has just started the daemon. login is a login link or empty.
func (d *daemon) welcome(r *Ready, login string) string {
	token := "\"authorization: Bearer $(cat " + cli.ShellWord(r.TokenFile) + ")\""
	command := d.options.program + " --data " + cli.ShellWord(d.cfg.Data)
	text := fmt.Sprintf("toold %s is ready (pid %d)\n", d.version, r.PID)
	if r.TCP != "" {
		text += "  tcp        " + r.TCP + "\n"
	}
	if r.Unix != "" {
		text += "  unix       " + r.Unix + "\n"
	}
	if r.HTTP != "" {
		text += "  http       " + r.HTTP + "\n"
	}
	if r.Metrics != "" {
		text += "  metrics    http://" + r.Metrics + "/metrics\n"
	}
	text += "  token      " + r.TokenFile + "\n  workspace  " + d.cfg.Workspace + "\n"
	if login != "" {
		text += fmt.Sprintf("Open the console, once within %.0f minutes (later: %s login):\n  %s\n", access.LoginTime.Minutes(), command, login)
	}
	text += "Call it, from another terminal:\n  " + command + " tools\n  " + command + " call grep pattern=TODO\n"
	if r.TCP != "" && !r.TLS {
		text += "  grpcurl -plaintext -H " + token + " " + r.TCP + " list\n"
	}
	if r.HTTP != "" {
		text += "  curl -H " + token + " --json '" + curlBody + "' " + r.HTTP + tooldv1.CallService_CallTool_FullMethodName + "\n"
	}
	return text + "Ctrl-C ends it.\n"
}
