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
	"os/exec"
	"strconv"
	"time"
)

// againstMCP compares the daemon with a server of test/bench/mcp, with the same number of clients. The client of the server's own library
// makes the calls to that server, as grpc-go's client makes the calls to the daemon. If thin is set, a minimal client makes them instead.
func againstMCP(kind string, thin bool) func(context.Context, *settings) (result, error) {
	return func(ctx context.Context, s *settings) (result, error) {
		if err := s.buildMCP(ctx); err != nil {
			return result{}, err
		}
		daemon, err := startDaemon(ctx, s)
		if err != nil {
			return result{}, err
		}
		defer daemon.stop()
		reference, err := start(ctx, s.mcp, []string{"serve", kind}, nil)
		if err != nil {
			return result{}, err
		}
		defer reference.stop()
		return alternate(s, rateRatio,
			func(d time.Duration) (sample, error) { return load(ctx, daemon, s.clients, d, execute("bench_noop")) },
			func(d time.Duration) (sample, error) {
				if thin {
					return loadThin(ctx, reference, s.clients, d)
				}
				return loadMCP(ctx, s, reference, kind, d)
			})
	}
}

// loadMCP makes calls with the client of the server's library, in a separate process.
func loadMCP(ctx context.Context, s *settings, server *process, kind string, d time.Duration) (sample, error) {
	cmd := exec.CommandContext(ctx, s.mcp, "load", kind, server.addr, strconv.Itoa(s.clients), d.String())
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return sample{}, err
	}
	if err := cmd.Start(); err != nil {
		return sample{}, err
	}
	answers := json.NewDecoder(out)
	var ready readyLine
	err = answers.Decode(&ready) // The load sends this value after its warm-up.
	before, err2 := server.cpu()
	var r struct {
		Calls             time.Duration
		Elapsed, P50, CPU time.Duration
	}
	err = errors.Join(err, err2, answers.Decode(&r))
	after, err2 := server.cpu()
	if err := errors.Join(err, err2, cmd.Wait()); err != nil {
		return sample{}, fmt.Errorf("load: %w %s", err, log.String())
	}
	return sample{rate: float64(r.Calls) / r.Elapsed.Seconds(), cpu: (after - before) / r.Calls, load: r.CPU / r.Calls, p50: r.P50}, nil
}

// loadThin makes calls with one connection and one MCP session per client.
func loadThin(ctx context.Context, p *process, clients int, d time.Duration) (sample, error) {
	all := make([]client, clients)
	for i := range all {
		c, err := dialMCP(p.addr)
		if err != nil {
			return sample{}, err
		}
		defer c.conn.Close()
		all[i] = c.call
	}
	return drive(ctx, p, all, d)
}

// mcpClient is a minimal client of an MCP server: hand-built requests, one persistent connection, one MCP session. The clients of the
// libraries cost many times as much, and would take processor time from the servers.
type mcpClient struct {
	conn    net.Conn
	in      *bufio.Reader
	addr    string
	session string
	out     []byte // reused buffer
}

func dialMCP(addr string) (*mcpClient, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &mcpClient{conn: conn, in: bufio.NewReader(conn), addr: addr}
	err = c.greet()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("initialize: %w", err)
	}
	return c, nil
}

func (c *mcpClient) greet() error {
	body, header, err := c.post([]byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`))
	if err != nil {
		return err
	}
	if !bytes.Contains(body, []byte(`"protocolVersion":"2025-06-18"`)) {
		return fmt.Errorf("answered %s", body)
	}
	if c.session = header.Get("Mcp-Session-Id"); c.session == "" {
		return fmt.Errorf("no session")
	}
	_, _, err = c.post([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return err
}

func (c *mcpClient) call(_ context.Context, n int64) error {
	body, _, err := c.post(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"bench_noop","arguments":%s}}`, n, arguments))
	if err != nil {
		return err
	}
	if !bytes.Contains(body, []byte(`{\"ok\":true}`)) || !bytes.Contains(body, fmt.Appendf(nil, `"id":%d,`, n)) {
		return fmt.Errorf("answered %s", body)
	}
	return nil
}

func (c *mcpClient) post(request []byte) (body []byte, header http.Header, err error) {
	c.out = fmt.Appendf(c.out[:0], "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n", c.addr)
	if c.session != "" {
		c.out = fmt.Appendf(c.out, "Mcp-Session-Id: %s\r\nMcp-Protocol-Version: 2025-06-18\r\n", c.session)
	}
	c.out = fmt.Appendf(c.out, "Content-Length: %d\r\n\r\n%s", len(request), request)
	if _, err := c.conn.Write(c.out); err != nil {
		return nil, nil, err
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	if body, err = io.ReadAll(answer.Body); err != nil {
		return nil, nil, err
	}
	if answer.StatusCode/100 != 2 || answer.Close {
		return nil, nil, fmt.Errorf("%s: %s", answer.Status, body)
	}
	return body, answer.Header, nil
}
