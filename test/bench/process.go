package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// build builds the daemon with the tools for benchmarks.
func build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "toold")
	return binary, goBuild(ctx, filepath.Join("test", "bench", "toold"), binary, "-tags", "grpcnotrace")
}

func (s *settings) buildMCP(ctx context.Context) error {
	if s.mcp != "" {
		return nil
	}
	binary := filepath.Join(s.dir, "mcp")
	err := goBuild(ctx, filepath.Join("test", "bench", "mcp"), binary)
	if err == nil {
		s.mcp = binary
	}
	return err
}

// goBuild builds the package in a folder with the module that contains it.
func goBuild(ctx context.Context, folder, binary string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", binary}, flags...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", folder, err, out)
	}
	return nil
}

// process is a server that runs for a measurement.
type process struct {
	cmd   *exec.Cmd
	addr  string
	http  string // host:port; empty unless the server serves HTTP
	token string
	ready time.Duration // time from start to the ready line
	dir   string
}

// readyLine is the first line that a server prints.
type readyLine struct {
	Ready bool   `json:"ready"`
	TCP   string `json:"tcp"`
	HTTP  string `json:"http"`
}

// start runs a server and waits until it prints its address.
func start(ctx context.Context, name string, args, env []string) (*process, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	log, err := os.CreateTemp("", "toold-bench-log-")
	if err != nil {
		return nil, err
	}
	cmd.Stderr = log
	defer log.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var line readyLine
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Ready {
			ready := time.Since(began)
			go func() { _, _ = io.Copy(io.Discard, out) }()
			os.Remove(log.Name())
			return &process{cmd: cmd, addr: line.TCP, http: strings.TrimPrefix(line.HTTP, "http://"), ready: ready}, nil
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	text, _ := os.ReadFile(log.Name())
	return nil, fmt.Errorf("%s did not become ready: %s", name, text)
}

// stop stops the server and waits for its end.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	_ = p.cmd.Wait()
	if p.dir != "" {
		os.RemoveAll(p.dir)
	}
}

// startDaemon runs toold with an empty store and rules that allow the no-op tools. further lines are added to its configuration.
func startDaemon(ctx context.Context, s *settings, further ...string) (*process, error) {
	dir, err := os.MkdirTemp(s.dir, "daemon-")
	if err != nil {
		return nil, err
	}
	workspace := filepath.Join(dir, "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(workspace, lineFile), []byte("one line\n"), 0o600); err != nil {
		return nil, err
	}
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(benchRules), 0o600); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "toold.yaml")
	text := fmt.Sprintf("data: %s\nworkspace: %s\nrules: %s\nlisten:\n  tcp: 127.0.0.1:0\n", filepath.Join(dir, "data"), workspace, rules)
	if err := os.WriteFile(config, []byte(text+strings.Join(further, "")), 0o600); err != nil {
		return nil, err
	}
	p, err := start(ctx, s.binary, []string{"serve", "--config", config}, nil)
	if err != nil {
		return nil, err
	}
	p.dir = dir
	token, err := os.ReadFile(filepath.Join(dir, "data", "token"))
	p.token = strings.TrimSpace(string(token))
	return p, err
}

// lineFile is a file of one line in the workspace.
const lineFile = "line.txt"

// benchRules is a small rule file, as an operator would write it.
const benchRules = `version: 1
rules:
  - action: allow
    tools: [bench_noop, bench_write, bench_progress, bench_log, bench_beat, bash, read]
  - action: ask
    tools: [bench_ask]
`

func startBare(ctx context.Context) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(ctx, self, []string{"bare"}, nil)
}

func (p *process) dial(n int) ([]*grpc.ClientConn, error) {
	var conns []*grpc.ClientConn
	for range n {
		options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
		if p.token != "" {
			options = append(options, grpc.WithPerRPCCredentials(bearer(p.token)))
		}
		c, err := grpc.NewClient("passthrough:///"+p.addr, options...)
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// cpu returns the processor time that the process has used.
func (p *process) cpu() (time.Duration, error) { return cpuOf(strconv.Itoa(p.cmd.Process.Pid)) }

// cpuOf returns the processor time of a process by its name in /proc. The resolution is 10 ms.
func cpuOf(pid string) (time.Duration, error) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("stat of %s: %q", pid, b)
	}
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}

func (p *process) resident() (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
