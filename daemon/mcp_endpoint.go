package daemon

import (
	"context"
	"net/http"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	mcpserver "github.com/toold-dev/toold/server/mcp"
)

// mcpEndpoint returns the handler of /mcp and of its metadata for OAuth.
func (d *daemon) mcpEndpoint() http.Handler {
	d.endpoint = mcpserver.New(mcpserver.Config{Conn: d.service.Conn(), Version: d.version, Approvals: func() bool { return d.servers.Load().cfg.MCP.Approvals }, Authenticate: d.mcpPrincipal, Issuers: d.issuerURLs})
	return d.endpoint.Handler()
}

// mcpPrincipal returns the principal of a request to the MCP endpoint. It refuses a principal that may not list tools.
func (d *daemon) mcpPrincipal(ctx context.Context) (who string, err error) {
	err = d.service.Serve(ctx, access.CredentialFrom(ctx), tooldv1.ToolService_ListTools_FullMethodName, nil, func(ctx context.Context) error {
		p := access.From(ctx)
		who = mcpserver.Principal(p.Namespace, p.Subject)
		return nil
	})
	return who, err
}

// issuerURLs returns the URLs of the issuers in force.
func (d *daemon) issuerURLs() []string {
	var urls []string
	for _, i := range d.reload.identities.Load().issuers {
		urls = append(urls, i.URL)
	}
	return urls
}
