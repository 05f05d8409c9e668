package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
)

// asConformance names an environment variable. When it is set, this test binary is the client for the MCP conformance suite. The client is
// toold with one server; the test answers questions like a person who agrees to everything. The last argument is the address of the server.
// scripts/mcp-conformance.sh runs this client.
const asConformance = "TOOLD_MCP_CONFORMANCE"

// conform calls the tools of a server.
func conform(url string) error {
	var given struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		ToolCalls    []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return err
		}
	}
	if os.Getenv("MCP_CONFORMANCE_SCENARIO") == "auth/basic-cimd" { // The client id is the address of a metadata document, which an operator configures.
		given.ClientID = "https://conformance-test.local/client-metadata.json"
	}
	entry := mcp.Entry{Key: "w", URL: url}
	if given.ClientID != "" {
		entry.Client = &mcp.Client{ID: given.ClientID, Secret: given.ClientSecret}
	}
	list := &conformed{byID: map[string]tool.Tool{}}
	hub, err := mcp.New(mcp.Config{
		Entries: []mcp.Entry{entry}, Dir: os.TempDir(), Tools: list, Vault: &vault{text: map[string]string{}}, Log: zap.NewNop(),
		Connect: 10 * time.Second, Wait: 10 * time.Second, Backoff: 50 * time.Millisecond, Version: "0",
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), 25*time.Second)
	defer stop()
	var run sync.WaitGroup
	hubContext, end := context.WithCancel(ctx)
	run.Go(func() { _ = hub.Run(hubContext) })
	defer run.Wait()
	defer end()
	if err := list.signedIn(ctx, hub); err != nil {
		return fmt.Errorf("%w: %+v", err, hub.Sources())
	}
	var wrong []error
	if len(given.ToolCalls) > 0 {
		for _, c := range given.ToolCalls {
			wrong = append(wrong, list.call(ctx, "w__"+c.Name, string(c.Arguments)))
		}
		return errors.Join(wrong...)
	}
	for _, t := range list.all() {
		args := plausible(t.Descriptor().Parameters)
		if strings.Contains(args, `"schema":{}`) { // This tool only reports to the scenario what the client received as the schema of another tool.
			args = fmt.Sprintf(`{"schema":%s}`, list.all()[0].Descriptor().Parameters)
		}
		wrong = append(wrong, list.call(ctx, t.Descriptor().ID, args))
	}
	return errors.Join(wrong...)
}

// conformed implements [mcp.Tools] for the tools of the server.
type conformed struct {
	mu    sync.Mutex
	order []tool.Tool
	byID  map[string]tool.Tool
}

func (l *conformed) Replace(_ string, tools []tool.Tool) map[string]error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order = tools
	clear(l.byID)
	for _, t := range tools {
		l.byID[t.Descriptor().ID] = t
	}
	return nil
}

func (l *conformed) all() []tool.Tool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.order
}

func (l *conformed) lookup(id string) tool.Tool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id]
}

// signedIn waits until the server is ready. When the server requires a sign-in, signedIn signs in.
func (l *conformed) signedIn(ctx context.Context, hub *mcp.Hub) error {
	for {
		if hub.Sources()[0].State == tool.SourceReady {
			return nil
		}
		if l.lookup("w__sign_in") != nil {
			if err := l.call(ctx, "w__sign_in", `{}`); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return errors.New("the server does not become ready")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// call executes a call as the engine does, and answers its questions.
func (l *conformed) call(ctx context.Context, id, args string) error {
	t := l.lookup(id)
	if t == nil {
		return fmt.Errorf("no tool %s", id)
	}
	var value map[string]any
	if err := json.Unmarshal([]byte(args), &value); err != nil {
		return err
	}
	rep := &reporter{}
	c := &tool.Call{Namespace: "default", ID: "call-" + id, Attempt: 1, Arguments: tool.NewArguments(args, value), Reporter: rep}
	for range 20 {
		r, err := t.Execute(ctx, c)
		if err != nil {
			return err
		}
		if !r.IsPending() {
			fmt.Fprintf(os.Stderr, "%s: %s %.200s\n", id, r.Status, r.ModelText())
			if r.IsError() && r.Error.Reason == "SIGN_IN_FAILED" {
				return r.Error
			}
			return nil
		}
		answer, err := agree(ctx, r.Suspension)
		if err != nil {
			return err
		}
		c = answered(c, rep, r, answer)
	}
	return errors.New("too many questions")
}

// agree answers a ticket as a person who signs in wherever needed and accepts the defaults of forms.
func agree(ctx context.Context, asked *tool.Ticket) (string, error) {
	if asked.Action != "auth" {
		return plausible(asked.ResponseSchema), nil
	}
	var p struct{ URL string }
	if err := json.Unmarshal(asked.Parameters, &p); err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return "", err
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := browser.Do(request)
	if err != nil {
		return "", err
	}
	_ = answer.Body.Close()
	at := answer.Header.Get("Location")
	if at == "" {
		return "", fmt.Errorf("%s leads nowhere: %s", p.URL, answer.Status)
	}
	return addressed(at), nil
}

// plausible returns a JSON object that fits a schema. It uses the defaults, and any value of the right type for other required fields.
func plausible(schema json.RawMessage) string {
	var s struct {
		Properties map[string]struct {
			Type    any
			Default json.RawMessage
			Enum    []json.RawMessage
		}
		Required []string
	}
	_ = json.Unmarshal(schema, &s) // When the text is not such a schema, s stays empty.
	fields := []string{}
	required := map[string]bool{}
	for _, name := range s.Required {
		required[name] = true
	}
	for name, p := range s.Properties {
		value := map[any]string{"number": "5", "integer": "5", "boolean": "true", "string": `"text"`, "array": "[]", "object": "{}"}[p.Type]
		switch {
		case len(p.Default) > 0:
			value = string(p.Default)
		case !required[name] || value == "":
			continue
		case len(p.Enum) > 0:
			value = string(p.Enum[0])
		}
		fields = append(fields, fmt.Sprintf("%q:%s", name, value))
	}
	return "{" + strings.Join(fields, ",") + "}"
}
