package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const (
	configFile = "toold.yaml"
	mcpTool    = "everything__trigger-elicitation-request"
	// mcpServers is the folder into which scripts/mcp-servers.sh installs the servers from npm, at the versions of their lock file.
	mcpServers = "tools/mcp/testdata/npm/node_modules"
	pythonSDK  = "sdk/python"
)

const serversConfig = `mcp:
  files: [%[1]s/mcp.json]
  servers:
    - {name: everything, profile: servers}
sandbox:
  profiles:
    - {name: servers, network: none, read: [%[2]s]}
`

const serversJSON = `{"mcpServers": {"everything": {"command": "node", "args": ["%s/@modelcontextprotocol/server-everything/dist/index.js"]}}}
`

// mcpQuestion runs the reference server of MCP from npm, isolated like bash, and calls a tool of it that asks a question. The question is
// an ordinary suspension, and the demo answers it on the command line.
func (s *stage) mcpQuestion(ctx context.Context) error {
	servers, err := filepath.Abs(mcpServers)
	if err != nil {
		return err
	}
	config := filepath.Join(s.dir, configFile)
	err = errors.Join(
		os.WriteFile(filepath.Join(s.dir, "mcp.json"), fmt.Appendf(nil, serversJSON, servers), 0o600),
		os.WriteFile(config, fmt.Appendf(nil, serversConfig, s.dir, servers), 0o600))
	if err != nil {
		return err
	}
	s.tell.command(fmt.Sprintf("kill %d", s.daemon.pid))
	s.api.close()
	if err := s.daemon.stop(25 * time.Second); err != nil {
		return err
	}
	s.config = configFile
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.offered(ctx, mcpTool); err != nil {
		return err
	}
	if a, err := s.toold(ctx, 6, "tools", "sources"); errors.Join(err, a.is(0)) != nil {
		return errors.Join(err, a.is(0))
	}
	a, err := s.toold(ctx, 4, "call", mcpTool)
	if err := errors.Join(err, a.is(exitSuspended)); err != nil {
		return err
	}
	c, err := s.waiting(ctx, mcpTool)
	if err != nil {
		return err
	}
	a, err = s.decide(ctx, "approve", c.GetSuspension().GetSuspensionId())
	if err := errors.Join(err, a.is(exitSuspended)); err != nil {
		return err
	}
	if c, err = s.waiting(ctx, mcpTool); err != nil {
		return err
	}
	if got := c.GetSuspension().GetAction(); got != "input" || c.GetSuspension().GetResponseSchema() == "" {
		return fmt.Errorf("the server's question waits with the action %q and the form %s", got, c.GetSuspension().GetResponseSchema())
	}
	s.tell.proof("the yes was for the call; now the server itself asks, and the call waits again")
	a, err = s.decide(ctx, "answer", c.GetSuspension().GetSuspensionId(), "name=Ada", "integer=7")
	if err := errors.Join(err, a.is(0), contains("the server", a.stdout, "- Name: Ada", "- Favorite Integer: 7")); err != nil {
		return err
	}
	if _, err := s.over(ctx, c.GetCallId(), succeeded, tooldv1.Executed_EXECUTED_FINISHED, 2); err != nil {
		return err
	}
	s.tell.proof("the server got the answer and told it back")
	return s.nobodyWaits(ctx)
}

// offered waits until a tool is in the list.
func (s *stage) offered(ctx context.Context, id string) error {
	return eventually(2*callWait, func() error {
		_, err := s.api.tools.GetTool(ctx, &tooldv1.GetToolRequest{Tool: id})
		return err
	})
}

const greetPy = `import os
from toold import Worker

worker = Worker("greeter", address=os.environ["ADDRESS"], token=open("data/token").read())

@worker.tool(read_only=True, observe=True)
def greet(call, name: str, times: int = 1) -> str:
    "Greets a person."
    return " ".join([f"Hello, {name}, from process {os.getpid()}!"] * times)

worker.run()
`

// pythonWorker offers a Python function as a tool, in a process that dials the daemon.
func (s *stage) pythonWorker(ctx context.Context) (err error) {
	sdk, err := filepath.Abs(pythonSDK)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "greet.py"), []byte(greetPy), 0o600); err != nil {
		return err
	}
	s.tell.command("cat greet.py")
	s.tell.output(greetPy, 12)
	s.tell.command("python3 greet.py &")
	log := &tail{}
	// Use Debian's own Python, because Debian's package of grpcio belongs to it.
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", "greet.py")
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append(environment(), "PYTHONPATH="+sdk, "ADDRESS="+s.daemon.tcp)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		if err != nil {
			_ = cmd.Process.Kill()
			err = fmt.Errorf("%w\nthe worker printed:\n%s", errors.Join(err, <-ended), log)
		}
	}()
	if err := s.offered(ctx, "greet"); err != nil {
		return err
	}
	a, err := s.toold(ctx, 6, "call", "greet", "name=Ada")
	if err := errors.Join(err, a.is(0), contains("the function", a.stdout, fmt.Sprintf("Hello, Ada, from process %d!", cmd.Process.Pid))); err != nil {
		return err
	}
	if a, err = s.toold(ctx, 6, "call", "greet", "--json", `{"times":"many"}`); errors.Join(err, a.is(exitFailed)) != nil {
		return errors.Join(err, a.is(exitFailed))
	}
	if err := contains("the refusal", a.screen, "name", "times"); err != nil {
		return err
	}
	s.tell.proof("process %d ran the function; what its types refuse never reached it", cmd.Process.Pid)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	select {
	case failed := <-ended:
		ended <- failed
		if failed != nil {
			return fmt.Errorf("the worker ended with %w", failed)
		}
	case <-time.After(callWait):
		return errors.New("the worker does not end")
	}
	return nil
}
