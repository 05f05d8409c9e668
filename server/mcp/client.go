package mcpserver

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tasksExtension is the extension with which a client follows calls as tasks.
const tasksExtension = "io.modelcontextprotocol/tasks"

// A client is what a request says about the client that sent it.
type client struct {
	session  *mcp.ServerSession
	hasState bool // false for the protocol without sessions, in which a question is the result of a request
	form     bool // shows forms to a person
	tasks    bool // follows calls as tasks
}

// clientOf returns the client of a request. The capabilities are those of the request or, in older protocols, of the session.
func clientOf[P mcp.Params](req *mcp.ServerRequest[P]) *client {
	c := &client{session: req.Session, hasState: req.ProtocolVersion() < firstStateless}
	if is := req.ClientCapabilities(); is != nil {
		_, has := is.Extensions[tasksExtension]
		c.tasks = has && !c.hasState // older protocols have other tasks
		c.form = is.Elicitation != nil && (is.Elicitation.Form != nil || is.Elicitation.URL == nil)
	}
	return c
}

// complete returns the member resultType of a result that is complete. Protocols with sessions have no such member.
func (c *client) complete() string {
	if c.hasState {
		return ""
	}
	return "complete"
}

// hashed returns an id that does not reveal the text.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}
