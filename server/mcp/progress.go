package mcpserver

import (
	"context"
	"math"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// progress returns a function that reports progress to the client. If the client sent no token, the function does nothing. In MCP the
// number must increase with each report. If the number is not larger than the last one, the function sends a slightly larger number when
// the report has a message, and otherwise sends nothing.
func (c *client) progress(ctx context.Context, token any) func(*tooldv1.Progress) {
	if token == nil {
		return func(*tooldv1.Progress) {}
	}
	last := math.Inf(-1)
	return func(p *tooldv1.Progress) {
		done, total := measure(p)
		if done <= last {
			if p.GetMessage() == "" {
				return
			}
			done = math.Nextafter(last, math.Inf(1))
		}
		last = done
		_ = c.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Message: p.GetMessage(), Progress: done, Total: total}) // Ignore the error: a client that cannot be reached gets no result either.
	}
}

// measure returns the amount of work that is done, and the total amount. A total of 0 means that it is unknown.
func measure(p *tooldv1.Progress) (done, total float64) {
	if p.GetTotal() > 0 || p.GetFraction() == 0 {
		return float64(p.GetLoaded()), float64(p.GetTotal())
	}
	return p.GetFraction(), 1
}
