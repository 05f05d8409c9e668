// Command mcp runs the MCP servers with which `make bench` compares toold. Each server has one typed tool that does nothing, over
// streamable HTTP. One server uses the official Go SDK, and one uses mcp-go. The command is a separate module, so that toold's module
// depends on neither library.
//
// Both servers check arguments against the schema. Beyond that they do only what their library does by default: no token, no log, no
// journal. `mcp load` calls a server with the client of its library.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const usage = "usage: mcp serve go-sdk | go-sdk-sse | mcp-go; mcp load go-sdk | mcp-go ADDRESS CLIENTS DURATION"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve" && args[1] == "go-sdk":
		return serve(official(&mcp.StreamableHTTPOptions{JSONResponse: true})) // the response form that costs the server least
	case len(args) == 2 && args[0] == "serve" && args[1] == "go-sdk-sse":
		return serve(official(nil))
	case len(args) == 2 && args[0] == "serve" && args[1] == "mcp-go":
		return serve(community())
	case len(args) == 5 && args[0] == "load":
		return load(args[1], args[2], args[3], args[4])
	}
	return errors.New(usage)
}

// serve prints its address and serves until it is interrupted.
func serve(handler http.Handler) error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: handler}
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)
	go func() {
		<-end
		s.Close()
	}()
	fmt.Printf("{\"ready\":true,\"tcp\":%q}\n", lis.Addr())
	if err := s.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// arguments are the ten properties of the daemon's no-op tool.
type arguments struct {
	Path       string   `json:"path"`
	Pattern    string   `json:"pattern"`
	Limit      int      `json:"limit,omitempty"`
	Offset     int      `json:"offset,omitempty"`
	Recursive  bool     `json:"recursive,omitempty"`
	IgnoreCase bool     `json:"ignore_case,omitempty"`
	Ratio      float64  `json:"ratio,omitempty"`
	Mode       string   `json:"mode,omitempty"`
	Tags       []string `json:"tags,omitempty"`
	Note       string   `json:"note,omitempty"`
}

type answer struct {
	OK bool `json:"ok"`
}

// schema is the same schema as that of the daemon's tool.
const schema = `{"type":"object","additionalProperties":false,"required":["path","pattern"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":4096},"pattern":{"type":"string","minLength":1},
"limit":{"type":"integer","minimum":1,"maximum":10000},"offset":{"type":"integer","minimum":0},
"recursive":{"type":"boolean"},"ignore_case":{"type":"boolean"},"ratio":{"type":"number","minimum":0,"maximum":1},
"mode":{"type":"string","enum":["content","files","count"]},"tags":{"type":"array","items":{"type":"string"},"maxItems":16},
"note":{"type":"string","maxLength":200}}}`

func official(options *mcp.StreamableHTTPOptions) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "bench_noop", InputSchema: json.RawMessage(schema)},
		func(context.Context, *mcp.CallToolRequest, arguments) (*mcp.CallToolResult, answer, error) {
			return nil, answer{OK: true}, nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, options)
}

func community() http.Handler {
	s := mcpgoserver.NewMCPServer("bench", "1", mcpgoserver.WithInputSchemaValidation()) // the other servers validate too
	s.AddTool(mcpgo.NewToolWithRawSchema("bench_noop", "", json.RawMessage(schema)), mcpgo.NewTypedToolHandler(
		func(context.Context, mcpgo.CallToolRequest, arguments) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText(`{"ok":true}`), nil
		}))
	return mcpgoserver.NewStreamableHTTPServer(s)
}
