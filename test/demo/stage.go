package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

//go:embed workspace
var files embed.FS

// callWait is the time limit for a short call.
const callWait = 30 * time.Second

// A stage is the environment of the demo: a directory with a store and a workspace, and the daemon on them.
type stage struct {
	tell      *teller
	session   *session
	bin       string
	dir       string
	data      string
	workspace string

	config string // path of the configuration file; "" means none
	daemon *daemon
	api    *api
	epoch  int64
	// ended holds the records of finished calls. They must never change again.
	ended []*tooldv1.Call
}

func newStage(bin string, tell *teller) (*stage, error) {
	if _, err := os.Stat(bin); err != nil {
		return nil, fmt.Errorf("%w (make build makes it)", err)
	}
	dir, err := os.MkdirTemp("", "toold-demo-")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // Use the real path, because /proc shows it.
		return nil, err
	}
	s := &stage{tell: tell, bin: bin, dir: dir, data: filepath.Join(dir, "data"), workspace: filepath.Join(dir, "workspace")}
	s.session = &session{known: map[string]string{bin: "toold", dir: "~"}}
	tree, err := fs.Sub(files, "workspace")
	if err == nil {
		err = os.CopyFS(s.workspace, tree)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// open starts the daemon and connects to it.
func (s *stage) open(ctx context.Context) error {
	args := []string{"serve", "--data", "data", "--workspace", "workspace", "--listen-tcp", "127.0.0.1:0"}
	if s.config != "" {
		args = append(args, "--config", s.config)
	}
	s.tell.command(typed(args) + " &")
	began := time.Now()
	d, err := startDaemon(s.bin, args, environment(), s.dir)
	if err != nil {
		return err
	}
	s.daemon = d
	if s.api, err = s.connect(); err != nil {
		return err
	}
	info, err := s.api.admin.GetInfo(ctx, &tooldv1.GetInfoRequest{})
	if err != nil {
		return err
	}
	if info.GetEpoch() <= s.epoch {
		return fmt.Errorf("epoch %d after epoch %d: the daemon does not know that it was started again", info.GetEpoch(), s.epoch)
	}
	s.epoch = info.GetEpoch()
	s.tell.note("process %d serves on %s after %d ms; version %s, store %s, start number %d",
		d.pid, d.tcp, time.Since(began).Milliseconds(), info.GetVersion(), info.GetStore(), info.GetEpoch())
	return nil
}

func (s *stage) connect() (*api, error) {
	token, err := os.ReadFile(filepath.Join(s.data, "token"))
	if err != nil {
		return nil, err
	}
	return dial(s.daemon.tcp, strings.TrimSpace(string(token)))
}

// crash kills the daemon with SIGKILL and checks that it is dead.
func (s *stage) crash() error {
	s.tell.command(fmt.Sprintf("kill -9 %d", s.daemon.pid))
	s.api.close()
	s.daemon.kill()
	if s.daemon.alive() {
		return fmt.Errorf("the daemon, process %v, is still there", s.daemon.process)
	}
	s.tell.proof("process %d is gone", s.daemon.pid)
	s.session.remark("here the daemon is killed with -9 and started again")
	return nil
}

func (s *stage) keep(c *tooldv1.Call) { s.ended = append(s.ended, c) }

// unchanged checks that the records of all finished calls are the same as when they ended.
func (s *stage) unchanged(ctx context.Context) error {
	for _, was := range s.ended {
		now, err := s.api.call(ctx, was.GetCallId())
		if err != nil {
			return fmt.Errorf("the record of %s call %s: %w", was.GetTool(), was.GetCallId(), err)
		}
		if !proto.Equal(was, now) {
			return fmt.Errorf("the record of %s call %s is not what was published:\n  %v\n  %v", was.GetTool(), was.GetCallId(), was, now)
		}
	}
	return nil
}

// curtain stops the daemon normally. Then it checks that no process remains and that every record is unchanged.
func (s *stage) curtain(ctx context.Context) error {
	s.tell.line("\n", s.tell.paint(bold, "       The end: stopped in order, and what stays"))
	s.tell.command(fmt.Sprintf("kill %d", s.daemon.pid))
	s.api.close()
	if err := s.daemon.stop(25 * time.Second); err != nil {
		return err
	}
	left, err := processesIn(s.workspace)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("processes of calls outlive the daemon: %v", left)
	}
	s.tell.proof("process %d ended with exit code 0, and no process is left in the workspace", s.daemon.pid)
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.unchanged(ctx); err != nil {
		return err
	}
	s.tell.proof("the records of all %d calls are byte for byte what was told when they ended", len(s.ended))
	return nil
}

// clear ends what the demo started and removes its directory. It kills only processes that the demo started, by id: the daemon, and
// commands left in the workspace.
func (s *stage) clear() error {
	var errs []error
	if s.api != nil {
		s.api.close()
	}
	if s.daemon != nil {
		s.daemon.kill()
	}
	left, err := processesIn(s.workspace)
	errs = append(errs, err)
	for _, p := range left {
		errs = append(errs, p.end(5*time.Second))
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// file reads a file of the workspace. It returns "" when there is none.
func (s *stage) file(name string) string {
	text, err := os.ReadFile(filepath.Join(s.workspace, name))
	if err != nil {
		return ""
	}
	return string(text)
}

// absent returns an error if the file exists.
func (s *stage) absent(name string) error {
	if _, err := os.Lstat(filepath.Join(s.workspace, name)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the workspace must not hold %s", name)
	}
	return nil
}

// snapshot reads the whole workspace, to detect unwanted changes.
func (s *stage) snapshot() (map[string][]byte, error) {
	found := map[string][]byte{}
	err := filepath.WalkDir(s.workspace, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		found[strings.TrimPrefix(path, s.workspace+"/")], err = os.ReadFile(path)
		return err
	})
	return found, err
}

// differences returns the names of the files that differ between two snapshots.
func differences(a, b map[string][]byte) []string {
	var names []string
	for name, text := range a {
		if other, found := b[name]; !found || !bytes.Equal(text, other) {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, found := a[name]; !found {
			names = append(names, name)
		}
	}
	return names
}
