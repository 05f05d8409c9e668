// Command mcp starts a toold binary with HTTP and a worker whose tools are the fixtures of MCP's conformance suite. Then it runs a command,
// which is a client of the daemon's MCP endpoint, and ends with the exit code of the command.
//
//	go run ./test/mcp <toold binary> <command> [argument]...
//
// The command finds in its environment:
//   - TOOLD_MCP_URL and TOOLD_MCP_TOKEN: the endpoint, and a token for it;
//   - TOOLD_MCP_OTHER_TOKEN: the token of another caller;
//   - TOOLD_MCP_OPEN_URL: the same endpoint for a client that cannot send a token. A proxy adds the token;
//   - TOOLD_MCP_BINARY and TOOLD_MCP_ADDRESS: the binary and its gRPC address, for "toold mcp".
//
// In the arguments of the command, {url} and {open_url} are replaced by TOOLD_MCP_URL and TOOLD_MCP_OPEN_URL.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: mcp <toold binary> <command> [argument]...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1], os.Args[2:])
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		os.Exit(max(ended.ExitCode(), 1))
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts daemon, worker and proxy, runs the command, and stops them again.
func run(ctx context.Context, binary string, command []string) (err error) {
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "toold-mcp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d, err := start(binary, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work, err := serveFixtures(ctx, d.grpc)
	if err != nil {
		return err
	}
	defer func() { cancel(); work.Wait() }()
	open, err := serveOpen(ctx, d)
	if err != nil {
		return err
	}
	fill := strings.NewReplacer("{url}", d.url(), "{open_url}", open)
	args := make([]string, len(command))
	for i, a := range command {
		args[i] = fill.Replace(a)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		"TOOLD_MCP_URL="+d.url(), "TOOLD_MCP_TOKEN="+token(client), "TOOLD_MCP_OTHER_TOKEN="+token(other),
		"TOOLD_MCP_OPEN_URL="+open, "TOOLD_MCP_BINARY="+binary, "TOOLD_MCP_ADDRESS="+d.grpc)
	return cmd.Run()
}
