package cli

import (
	"context"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	mcpserver "github.com/toold-dev/toold/server/mcp"
)

func mcpCommand(a *App) *cobra.Command {
	var approvals bool
	c := &cobra.Command{
		Use: "mcp", Short: "Serve the tools to an MCP client over standard input and output",
		Long: `Serves the tools of a running daemon to an MCP client that starts this command,
such as Claude Desktop. The calls are those of the user or token with which the
command connects. The command ends when the client closes its standard input,
or when the daemon no longer accepts the token.

A question of a tool goes to the client. A question that names approvers waits
in the inbox, unless --approvals offers it to the client too. Clients can answer
such questions without asking a person.`,
		Example: `  toold mcp --data /var/lib/toold`,
		Args:    NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			conn, err := a.Dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			tools := tooldv1.NewToolServiceClient(conn)
			if _, err := tools.ListTools(c.Context(), &tooldv1.ListToolsRequest{PageSize: 1}); err != nil {
				return err // the MCP client shows its user why there are no tools
			}
			s := mcpserver.New(mcpserver.Config{Conn: conn, Version: a.Version, Approvals: func() bool { return approvals }})
			return s.Run(c.Context(), stdio{a})
		},
	}
	c.Flags().BoolVar(&approvals, "approvals", false, "ask the client to approve its own calls")
	return c
}

// stdio is the transport over the streams of the command line. The end of the input ends the session without an error.
type stdio struct{ app *App }

func (s stdio) Connect(ctx context.Context) (mcp.Connection, error) {
	t := mcp.IOTransport{Reader: io.NopCloser(s.app.In), Writer: keepOpen{s.app.Out}}
	return t.Connect(ctx)
}

// keepOpen is a writer that stays open when the session ends.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
