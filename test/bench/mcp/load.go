package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// input has 200 bytes. The loads for the other servers send the same bytes.
const input = `{"path":"src/main/server.go","pattern":"func Serve","limit":200,"offset":10,"recursive":true,"ignore_case":false,"ratio":0.75,"mode":"content","tags":["alpha","beta"],"note":"a short remark, 200 bytes"}`

// version is a protocol version in which MCP has sessions. Later versions have none.
const version = "2025-06-18"

type report struct {
	Calls   int64         `json:"calls"`
	Elapsed time.Duration `json:"elapsed"`
	P50     time.Duration `json:"p50"`
	CPU     time.Duration `json:"cpu"` // CPU time of this process for the whole load
}

// load calls a server with the client of its library. Each client has its own session and persistent connections.
func load(kind, addr, clients, duration string) error {
	n, err1 := strconv.Atoi(clients)
	d, err2 := time.ParseDuration(duration)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	connect := dialOfficial
	if kind == "mcp-go" {
		connect = dialCommunity
	}
	ctx := context.Background()
	web := &http.Client{Transport: &http.Transport{MaxIdleConns: n, MaxIdleConnsPerHost: n}}
	calls := make([]func() error, n)
	for i := range calls {
		call, err := connect(ctx, web, "http://"+addr+"/mcp")
		if err != nil {
			return err
		}
		for range 4 {
			if err := call(); err != nil {
				return err
			}
		}
		calls[i] = call
	}
	fmt.Println(`{"ready":true}`)
	r, err := drive(calls, d)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func drive(calls []func() error, d time.Duration) (r report, err error) {
	used := cpu()
	times := make([][]time.Duration, len(calls))
	errs := make([]error, len(calls))
	began := time.Now()
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			for time.Since(began) < d {
				at := time.Now()
				if errs[i] = call(); errs[i] != nil {
					return
				}
				times[i] = append(times[i], time.Since(at))
			}
		})
	}
	all.Wait()
	merged := slices.Concat(times...)
	if err := errors.Join(errs...); err != nil || len(merged) == 0 {
		return r, errors.Join(err, errors.New("the load did not come to its end"))
	}
	slices.Sort(merged)
	return report{Calls: int64(len(merged)), Elapsed: time.Since(began), P50: merged[len(merged)/2], CPU: cpu() - used}, nil
}

func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func dialOfficial(ctx context.Context, web *http.Client, url string) (func() error, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: web, DisableStandaloneSSE: true},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return nil, err
	}
	return func() error {
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "bench_noop", Arguments: json.RawMessage(input)})
		if err != nil {
			return err
		}
		if r.IsError || r.StructuredContent == nil {
			return fmt.Errorf("the tool answered %v", r.Content)
		}
		return nil
	}, nil
}

func dialCommunity(ctx context.Context, web *http.Client, url string) (func() error, error) {
	c, err := mcpgoclient.NewStreamableHttpClient(url, transport.WithHTTPBasicClient(web))
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	var hello mcpgo.InitializeRequest
	hello.Params.ProtocolVersion = version
	hello.Params.ClientInfo = mcpgo.Implementation{Name: "bench", Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return nil, err
	}
	var request mcpgo.CallToolRequest
	request.Params.Name = "bench_noop"
	request.Params.Arguments = json.RawMessage(input)
	return func() error {
		r, err := c.CallTool(ctx, request)
		if err != nil {
			return err
		}
		if r.IsError || len(r.Content) == 0 {
			return fmt.Errorf("the tool answered %v", r.Content)
		}
		return nil
	}, nil
}
