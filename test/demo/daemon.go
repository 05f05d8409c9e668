package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A daemon is one process of "toold serve".
type daemon struct {
	process
	tcp string // the address that the daemon printed

	cmd   *exec.Cmd
	ended chan struct{} // closed when the process was reaped
	out   *tail
	log   *tail
}

const startWithin = 30 * time.Second

// startDaemon starts a daemon on a free port and returns when the daemon reports that it serves.
func startDaemon(bin string, args, env []string, dir string) (*daemon, error) {
	cmd := exec.Command(bin, args...)
	cmd.Dir, cmd.Env = dir, env
	// The daemon gets its own process group. Ctrl-C in the terminal therefore reaches only the demo, which then stops the daemon.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d := &daemon{cmd: cmd, ended: make(chan struct{}), out: &tail{}, log: &tail{}}
	cmd.Stdout, cmd.Stderr = d.out, d.log
	cmd.WaitDelay = time.Second // a process of a call may have inherited these pipes
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	d.process, _ = processAt(cmd.Process.Pid)
	d.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait() // Ignore the error: cmd.ProcessState has the outcome.
		close(d.ended)
	}()
	if err := eventually(startWithin, d.ready); err != nil {
		d.kill()
		return nil, fmt.Errorf("toold serve: %w\n%s", err, d.log)
	}
	return d, nil
}

// ready looks for the JSON line in which a daemon reports its address.
func (d *daemon) ready() error {
	for text := range strings.Lines(d.out.String()) {
		var ready struct {
			TCP string `json:"tcp"`
		}
		if json.Unmarshal([]byte(text), &ready) == nil && ready.TCP != "" {
			d.tcp = ready.TCP
			return nil
		}
	}
	if err := d.running(); err != nil {
		return err
	}
	return errors.New("does not say where it serves")
}

// kill sends SIGKILL, so that the daemon cannot clean up, as in a power cut.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // An error means that the process has already ended.
	<-d.ended
}

// stop sends SIGTERM and requires an orderly end within the given time.
func (d *daemon) stop(within time.Duration) error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("the daemon had ended before it was stopped: %w", err)
	}
	select {
	case <-d.ended:
	case <-time.After(within):
		d.kill()
		return fmt.Errorf("the daemon did not end within %v of SIGTERM", within)
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the daemon ended with %v after SIGTERM\n%s", d.cmd.ProcessState, d.log)
	}
	return nil
}

func (d *daemon) running() error {
	select {
	case <-d.ended:
		return errors.New("the daemon has ended: " + d.cmd.ProcessState.String())
	default:
		return nil
	}
}

// A tail keeps the last bytes that were written to it, up to tailSize.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailSize; over > 0 {
		t.text = append([]byte(nil), t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// environment returns the environment of the demo's processes: without the user's own toold settings, and without colour.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TOOLD_") {
			env = append(env, v)
		}
	}
	return append(env, "NO_COLOR=1")
}
