package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/toold-dev/toold/test/model"
)

// recording contains the responses of the model. The model searches the files, and counts the rows of one file with a command that needs an
// approval.
const recording = `
{"text": "I look for it.", "calls": [{"name": "grep", "arguments": {"pattern": "replicas", "path": "config"}}]}
{"results": ["replicas: 5"], "calls": [{"name": "bash", "arguments": {"command": "wc -l <config/app.yaml && echo counted >>agent-ran"}}]}
{"results": ["5"], "text": "The service has 5 replicas, and its file has 5 rows."}
`

const finalText = "The service has 5 replicas, and its file has 5 rows."

// agent runs the example agent in Go with a recorded model. The agent is killed while it waits for a person, and the daemon too.
func (s *stage) agent(ctx context.Context) error {
	url, stop, err := serveModel(ctx)
	if err != nil {
		return err
	}
	defer stop()
	first, err := s.startAgent(ctx, url)
	if err != nil {
		return err
	}
	defer first.kill()
	if err := first.awaitText("waits for a person"); err != nil {
		return err
	}
	s.tell.output(first.log.String(), 6)
	asked, err := s.waiting(ctx, "bash")
	if err != nil {
		return err
	}
	if err := errors.Join(untouched(asked), s.absent("agent-ran")); err != nil {
		return err
	}
	s.tell.command(fmt.Sprintf("kill -9 %d   # the agent", first.cmd.Process.Pid))
	first.kill()
	if err := s.dieAndReturn(ctx); err != nil {
		return err
	}
	second, err := s.startAgent(ctx, url)
	if err != nil {
		return err
	}
	defer second.kill()
	if err := second.awaitText("waits for a person"); err != nil {
		return err
	}
	s.tell.proof("both are back, and the agent waits for the same question: it sent its turn again")
	if asked, err = s.waiting(ctx, "bash"); err != nil {
		return err
	}
	if err := s.approve(ctx, asked); err != nil {
		return err
	}
	return s.agentEnds(second)
}

func (s *stage) agentEnds(a *agentProcess) error {
	select {
	case <-a.ended:
	case <-time.After(callWait):
		return fmt.Errorf("the agent does not end:\n%s", &a.log)
	}
	if out := a.out.String(); out != finalText+"\n" {
		return fmt.Errorf("the agent printed %q, %v, and before\n%s", out, a.cmd.ProcessState, &a.log)
	}
	s.tell.output(a.out.String(), 2)
	if ran := s.file("agent-ran"); ran != "counted\n" {
		return fmt.Errorf("the command of the model ran like this: %q", ran)
	}
	s.tell.proof("the model's command ran once (it counts in a file), and the model got one answer for each of its calls")
	return nil
}

// serveModel serves the recorded model on a free port. The model refuses a history in which a call has no answer or several answers.
func serveModel(ctx context.Context) (url string, stop func(), err error) {
	steps, err := model.Read(strings.NewReader(recording))
	if err != nil {
		return "", nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: model.New(steps), ReadHeaderTimeout: callWait}
	go func() { _ = server.Serve(l) }() // The goroutine returns after Close.
	return "http://" + l.Addr().String(), func() { _ = server.Close() }, nil
}

type agentProcess struct {
	cmd      *exec.Cmd
	out, log tail
	ended    chan struct{}
}

// startAgent starts the agent in the demo's directory, where its history is.
func (s *stage) startAgent(ctx context.Context, url string) (*agentProcess, error) {
	const task = "How many replicas and rows are there?"
	s.tell.command("agent " + quoted(task) + " &")
	token, err := os.ReadFile(filepath.Join(s.data, "token"))
	if err != nil {
		return nil, err
	}
	a := &agentProcess{cmd: exec.CommandContext(ctx, filepath.Join(filepath.Dir(s.bin), "agent"), task), ended: make(chan struct{})}
	a.cmd.Dir, a.cmd.Stdout, a.cmd.Stderr, a.cmd.WaitDelay = s.dir, &a.out, &a.log, time.Second
	a.cmd.Env = append(environment(), "TOOLD_ADDRESS="+s.daemon.tcp, "TOOLD_TOKEN="+strings.TrimSpace(string(token)), "MODEL_URL="+url, "MODEL_NAME=recorded")
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w (make demo builds it)", err)
	}
	go func() {
		_ = a.cmd.Wait() // Ignore the error: ProcessState has the outcome.
		close(a.ended)
	}()
	return a, nil
}

// awaitText waits until the agent has printed a text.
func (a *agentProcess) awaitText(text string) error {
	return eventually(callWait, func() error {
		if !strings.Contains(a.log.String(), text) {
			return fmt.Errorf("the agent does not print %q:\n%s", text, &a.log)
		}
		return nil
	})
}

func (a *agentProcess) kill() {
	_ = a.cmd.Process.Kill() // An error means that the process has already ended.
	<-a.ended
}
