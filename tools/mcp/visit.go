package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toold-dev/toold/tool"
)

// signinName is the name of the only listed tool of a server whose tools are unknown because it needs a sign-in first.
const signinName = "sign_in"

// A signinTool asks a person to sign in to a server.
type signinTool struct {
	server     *server
	descriptor tool.Descriptor
}

// Descriptor implements [tool.Tool].
func (d *signinTool) Descriptor() tool.Descriptor { return d.descriptor }

// Execute implements [tool.Tool].
func (d *signinTool) Execute(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	m, err := recallMemo(c)
	if err == nil && m.arrived {
		err = d.server.arrive(ctx, c, m)
	}
	if err != nil {
		return answerOf(err)
	}
	if _, err := d.server.ready(ctx, c.Namespace); errors.Is(err, errSignIn) {
		return d.server.visit(ctx, c, m)
	} else if err != nil {
		return nil, err
	}
	return &tool.Result{Status: tool.StatusSuccess, Message: "Signed in. The tools of the server are available.", Data: `"signed in"`}, nil
}

// offerSignin lists the sign-in tool, unless other tools of the server are known.
func (s *server) offerSignin() {
	s.listing.Lock()
	defer s.listing.Unlock()
	if s.retired || !s.signin.wanted() {
		return
	}
	s.publish(nil) // This wakes the calls that wait for the server.
	if s.kept != nil || len(s.shown) > 0 {
		return
	}
	id, err := toolID(s.entry.Key, signinName)
	if err != nil {
		return // This cannot happen, because the key is valid.
	}
	d := tool.Descriptor{
		ID: id, DisplayName: cleanLine(s.entry.Key+": sign in", maxTitle), Category: "mcp",
		Description: "Asks a person to sign in to the MCP server " + cleanLine(s.entry.Key, maxTitle) + ". Its tools are available afterwards.",
		Parameters:  json.RawMessage(`{"type":"object","additionalProperties":false}`),
		Effects:     tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyNetwork, Tier: tool.Observe, OpenWorld: true}, // Every call of this tool asks a person to sign in, so the tier OBSERVE is enough.
	}
	s.cfg.Tools.Replace(s.source.Name, []tool.Tool{&signinTool{s, d}})
}

// maxVisits is the maximum number of times that people are asked to sign in for one call.
const maxVisits = 3

// visit suspends a call until a person has signed in.
func (s *server) visit(ctx context.Context, c *tool.Call, m *memo) (*tool.Result, error) {
	if s = s.newest(); s.signin == nil { // A reload replaced the server meanwhile.
		return nil, s.away("its configuration no longer supports sign-in")
	}
	if m.Visits++; m.Visits > maxVisits {
		return nil, &tool.Error{
			Code: tool.Upstream, Reason: "SIGN_IN_REFUSED",
			Message: fmt.Sprintf("Not run: the server still refuses the call after %d sign-ins", maxVisits),
		}
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	v, err := s.signin.begin(ctx)
	if err != nil {
		return nil, &tool.Error{
			Code: tool.Upstream, Reason: "SIGN_IN_IMPOSSIBLE",
			Message: "Not run: the server requires a sign-in, and the sign-in cannot be prepared: " + s.signin.hideText(cleanLine(err.Error(), maxDescription)),
		}
	}
	m.Visit, m.Open = v, nil
	text, err := json.Marshal(m)
	if err == nil {
		err = c.SaveCheckpoint(text)
	}
	if err != nil {
		return nil, err
	}
	return tool.SuspendedWith(s.signin.ticket(v)), nil
}

// arrive completes the sign-in with the answer in the decision. Then it makes the server connect at once.
func (s *server) arrive(ctx context.Context, c *tool.Call, m *memo) error {
	s = s.newest()
	v := m.Visit
	m.Visit, m.arrived = nil, false
	var answer struct {
		Address string `json:"address"`
	}
	_ = json.Unmarshal([]byte(c.Resume.Result), &answer) // There is no error, because the result matches the schema.
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if s.signin == nil {
		return tool.Errorf(tool.ExecutionFailed, "The configuration of the server has changed and no longer supports sign-in")
	}
	if err := s.signin.finish(ctx, v, answer.Address); err != nil {
		return &tool.Error{Code: tool.ExecutionFailed, Reason: "SIGN_IN_FAILED", Message: "The sign-in failed: " + err.Error()}
	}
	s.retry()
	return nil
}

// retry makes the server connect without waiting for the backoff.
func (s *server) retry() {
	select {
	case s.kick <- struct{}{}:
	default: // The channel already contains a value, so the server will connect.
	}
}
