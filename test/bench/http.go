package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// listenHTTP is the configuration of a daemon that serves HTTP.
const listenHTTP = "  http: 127.0.0.1:0\n"

// eventWatch measures the memory of clients that follow a suspended call by server-sent events, each over its own connection.
func eventWatch(ctx context.Context, s *settings) (result, error) {
	p, err := startDaemon(ctx, s, listenHTTP)
	if err != nil {
		return result{}, err
	}
	defer p.stop()
	client, end, err := p.client()
	if err != nil {
		return result{}, err
	}
	defer end()
	spec := callSpec("bench_ask", serial.Add(1))
	if _, err := client.CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec}); err != nil {
		return result{}, err
	}
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	return perWatcher(p, func() error {
		c, err := net.Dial("tcp", p.http)
		if err != nil {
			return err
		}
		open = append(open, c)
		_, err = fmt.Fprintf(c, "GET /v1/watch?call=%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", spec.CallId, p.http, p.token)
		if err != nil {
			return err
		}
		in := bufio.NewReader(c)
		for line := ""; err == nil && !strings.HasPrefix(line, "event: caught_up"); {
			line, err = in.ReadString('\n')
		}
		return err
	})
}

// jsonCalls compares calls over HTTP with a server of net/http that decodes and encodes the same JSON.
func jsonCalls(ctx context.Context, s *settings) (result, error) {
	daemon, err := startDaemon(ctx, s, listenHTTP)
	if err != nil {
		return result{}, err
	}
	defer daemon.stop()
	self, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	reference, err := start(ctx, self, []string{"bare-http"}, nil)
	if err != nil {
		return result{}, err
	}
	defer reference.stop()
	side := func(p *process) func(time.Duration) (sample, error) {
		return func(d time.Duration) (sample, error) { return loadJSON(ctx, p, s.clients, d) }
	}
	return alternate(s, rateRatio, side(daemon), side(reference))
}

// loadJSON makes calls from many clients, each over its own connection.
func loadJSON(ctx context.Context, p *process, clients int, d time.Duration) (sample, error) {
	all := make([]client, clients)
	for i := range all {
		conn, err := net.Dial("tcp", p.http)
		if err != nil {
			return sample{}, err
		}
		defer conn.Close()
		c := &jsonClient{process: p, conn: conn, in: bufio.NewReader(conn)}
		all[i] = c.call
	}
	return drive(ctx, p, all, d)
}

// A jsonClient is a minimal client with one persistent connection. The client of net/http would take processor time from the servers.
type jsonClient struct {
	*process
	conn net.Conn
	in   *bufio.Reader
	out  []byte // reused buffer
}

func (c *jsonClient) call(_ context.Context, n int64) error {
	spec := callSpec("bench_noop", n)
	body := fmt.Sprintf(`{"spec":{"tool":%q,"arguments":%q,"callId":%q,"run":{"runId":%q,"threadId":%q}}}`,
		spec.Tool, spec.Arguments, spec.CallId, spec.Run.RunId, spec.Run.ThreadId)
	c.out = fmt.Appendf(c.out[:0], "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		tooldv1.CallService_CallTool_FullMethodName, c.http, c.token, len(body), body)
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(spec.CallId)) || !bytes.Contains(text, []byte("SUCCEEDED")) {
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	return nil
}

type jsonRequest struct {
	Spec struct {
		Tool      string  `json:"tool"`
		Arguments string  `json:"arguments"`
		CallID    string  `json:"callId"`
		Run       jsonRun `json:"run"`
	} `json:"spec"`
}

type jsonRun struct {
	RunID    string `json:"runId"`
	ThreadID string `json:"threadId"`
	Mode     string `json:"mode,omitempty"`
}

// jsonResponse is the response to a call, as the daemon sends it.
type jsonResponse struct {
	Call   jsonCall `json:"call"`
	Cursor string   `json:"cursor"`
}

type jsonCall struct {
	CallID   string `json:"callId"`
	Status   string `json:"status"`
	Executed string `json:"executed"`
	Result   struct {
		Status   string `json:"status"`
		Data     string `json:"data"`
		ToolName string `json:"toolName"`
		Duration string `json:"duration"`
	} `json:"result"`
	Tool               string  `json:"tool"`
	Run                jsonRun `json:"run"`
	RequestedArguments string  `json:"requestedArguments"`
	EffectiveArguments string  `json:"effectiveArguments"`
	Assessment         struct {
		Mutability      string `json:"mutability"`
		Safety          string `json:"safety"`
		Tier            string `json:"tier"`
		ConcurrencySafe bool   `json:"concurrencySafe"`
	} `json:"assessment"`
	Description struct {
		Kind  string `json:"kind"`
		Title string `json:"title"`
	} `json:"description"`
	LastSequence int64     `json:"lastSequence,string"`
	CreatedAt    time.Time `json:"createdAt"`
	EndedAt      time.Time `json:"endedAt"`
	StartedAt    time.Time `json:"startedAt"`
	Namespace    string    `json:"namespace"`
	Caller       struct {
		Subject   string   `json:"subject"`
		Roles     []string `json:"roles"`
		Method    string   `json:"method"`
		Namespace string   `json:"namespace"`
	} `json:"caller"`
	ToolDigest string        `json:"toolDigest"`
	Verdicts   []jsonVerdict `json:"verdicts"`
	Attempts   []jsonAttempt `json:"attempts"`
	Isolation  struct {
		Required string `json:"required"`
		Network  string `json:"network"`
	} `json:"isolation"`
	Durability string `json:"durability"`
	Epoch      int64  `json:"epoch,string"`
	Detached   bool   `json:"detached"`
	NotStored  bool   `json:"notStored"`
}

type jsonVerdict struct {
	Gate   string `json:"gate"`
	Action string `json:"action"`
}

type jsonAttempt struct {
	Attempt   int       `json:"attempt"`
	Epoch     int64     `json:"epoch,string"`
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt"`
}

// answerJSON returns the record of a no-op call.
func answerJSON(w http.ResponseWriter, r *http.Request) {
	var req jsonRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<20)).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := time.Now().UTC()
	res := jsonResponse{Cursor: "c1.1.3"}
	c := &res.Call
	c.CallID, c.Tool, c.Status, c.Executed = req.Spec.CallID, req.Spec.Tool, "CALL_STATUS_SUCCEEDED", "EXECUTED_FINISHED"
	c.Result.Status, c.Result.Data, c.Result.ToolName, c.Result.Duration = "RESULT_STATUS_SUCCESS", `{"ok":true}`, req.Spec.Tool, "0.000050000s"
	c.Run, c.RequestedArguments, c.EffectiveArguments = req.Spec.Run, req.Spec.Arguments, req.Spec.Arguments
	c.Run.Mode = "RUN_MODE_ATTENDED"
	c.Assessment.Mutability, c.Assessment.Safety, c.Assessment.Tier, c.Assessment.ConcurrencySafe = "MUTABILITY_READ_ONLY", "SAFETY_READ_ONLY", "TIER_OBSERVE", true
	c.Description.Kind, c.Description.Title = "KIND_READ", req.Spec.Tool
	c.LastSequence, c.CreatedAt, c.EndedAt, c.StartedAt, c.Namespace, c.ToolDigest = 3, now, now, now, "default", digest
	c.Caller.Subject, c.Caller.Method, c.Caller.Namespace = "local", "token", "default"
	c.Caller.Roles = []string{"ROLE_CALLER", "ROLE_APPROVER", "ROLE_OPERATOR", "ROLE_VIEWER", "ROLE_ADMIN"}
	c.Verdicts = []jsonVerdict{{"permission", "VERDICT_ACTION_ALLOW"}}
	c.Attempts = []jsonAttempt{{1, 1, now, now}}
	c.Isolation.Required, c.Isolation.Network = "ISOLATION_LEVEL_NONE", "NETWORK_MODE_NONE"
	c.Durability, c.Epoch, c.Detached, c.NotStored = "DURABILITY_BEHIND", 1, true, true
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&res) // Ignore the error: a write fails only when the client is gone.
}

// serveBareHTTP runs the reference server of jsonCalls.
func serveBareHTTP() error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+tooldv1.CallService_CallTool_FullMethodName, answerJSON)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)
	go func() {
		<-end
		_ = server.Close()
	}()
	fmt.Printf("{\"ready\":true,\"http\":\"http://%s\"}\n", lis.Addr())
	if err := server.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
