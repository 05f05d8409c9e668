// Package pgtest starts a real PostgreSQL server for tests, from the binaries of Debian's package postgresql.
//
// Each server has its own directory and listens only on a unix socket in it. It syncs to the disk like any server. It ends with the test
// process, even when that process is killed. TOOLD_TEST_PGDIR sets the parent of its directory. The parent may be on a file system in
// memory, because no test with this server simulates a power loss.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Install is the command that installs the binaries for [Start].
const Install = "apt-get install -y --no-install-recommends postgresql"

// The roles of a server: its superuser, and the role that uses a store and has no other rights.
const (
	Superuser = "postgres"
	Role      = "toold"
)

const startWithin = time.Minute

// A Server is a PostgreSQL server that runs or can be started again.
type Server struct {
	dir, bin string
	as       *syscall.Credential // nil means the user of this process
	settings []string
	process  *process
}

type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start creates a server and returns when it answers. settings are lines of postgresql.conf, such as fsync=off.
func Start(settings ...string) (_ *Server, err error) {
	s := &Server{settings: settings}
	if s.bin, err = binaries(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp(os.Getenv("TOOLD_TEST_PGDIR"), "toold-pg-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.dropRoot(); err != nil {
		return nil, err
	}
	// The flag --no-sync affects only the files of the new server, which are empty.
	initdb := exec.Command(filepath.Join(s.bin, "initdb"), "--pgdata", s.data(), "--username", Superuser, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := s.Resume(); err != nil {
		return nil, err
	}
	return s, s.Exec("CREATE ROLE "+Role+" LOGIN", "CREATE DATABASE "+Role+" OWNER "+Role)
}

// binaries returns the directory of the newest installed release.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	slices.SortFunc(found, func(a, b string) int { return release(a) - release(b) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("PostgreSQL is not installed; run this first:  sudo %s", Install)
	}
	return filepath.Dir(path), nil
}

func release(path string) int {
	n, _ := strconv.Atoi(strings.Split(path, "/")[4])
	return n
}

// dropRoot chooses an unprivileged user for the server when the test runs as root, because PostgreSQL refuses to run as root.
func (s *Server) dropRoot() error {
	if os.Getuid() != 0 {
		return nil
	}
	var u *user.User
	err := errors.New("nobody")
	for _, name := range []string{"postgres", "nobody"} {
		if err != nil {
			u, err = user.Lookup(name)
		}
	}
	if err != nil {
		return err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return err
	}
	s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.dir, int(uid), int(gid))
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Resume starts a stopped server and returns when it answers.
func (s *Server) Resume() error {
	settings := append([]string{"listen_addresses=", "unix_socket_directories=" + s.dir, "unix_socket_permissions=0777", "shared_buffers=32MB", "wal_level=minimal", "max_wal_senders=0", "log_min_messages=warning"}, s.settings...)
	args := []string{"-D", s.data()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	s.process = &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go s.process.attend(started)
	if err := <-started; err != nil {
		return err
	}
	return s.awaitAnswer()
}

// attend starts the server and waits for its end, in one goroutine that is locked to its operating system thread. This is needed because
// the kernel sends the parent-death signal to the server when the operating system thread that started it ends.
func (p *process) attend(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // Ignore the error: the log of the server contains the reason.
	}
}

func (s *Server) awaitAnswer() error {
	for until := time.Now().Add(startWithin); ; time.Sleep(10 * time.Millisecond) {
		err := s.Exec("SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-s.process.ended:
			return fmt.Errorf("the server did not start\n%s", s.Log())
		default:
		}
		if time.Now().After(until) {
			return fmt.Errorf("the server does not answer: %w\n%s", err, s.Log())
		}
	}
}

// Log returns the server's log.
func (s *Server) Log() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Exec runs each statement as the superuser, in its own transaction.
func (s *Server) Exec(statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	conn, err := pgx.Connect(ctx, "user="+Superuser+" dbname=postgres host="+s.dir)
	if err != nil {
		return err
	}
	for _, text := range statements {
		if _, err = conn.Exec(ctx, text); err != nil {
			break
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

// Socket is the path of the socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// Signal sends a signal to the server: SIGINT for a fast clean shutdown, SIGQUIT to end at once, SIGHUP to reload settings.
func (s *Server) Signal(sig syscall.Signal) error { return s.process.cmd.Process.Signal(sig) }

// Stop ends the server with a signal and returns when it has ended.
func (s *Server) Stop(sig syscall.Signal) error {
	if err := s.Signal(sig); err != nil {
		return err
	}
	select {
	case <-s.process.ended:
		return nil
	case <-time.After(startWithin):
		return fmt.Errorf("the server did not end after %v\n%s", sig, s.Log())
	}
}

// Processes returns the ids of the server's processes. The first is the main process.
func (s *Server) Processes() ([]int, error) {
	pid := s.process.cmd.Process.Pid
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	all := []int{pid}
	for _, word := range strings.Fields(string(text)) {
		child, bad := strconv.Atoi(word)
		all, err = append(all, child), errors.Join(err, bad)
	}
	return all, err
}

// KillBackend kills one of the processes that serve [Role], with kill -9. The server then ends the other processes and recovers as after a
// crash. KillBackend returns when the server answers again.
func (s *Server) KillBackend() error {
	all, err := s.Processes()
	if err != nil {
		return err
	}
	for _, pid := range all[1:] {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || !strings.HasPrefix(string(name), "postgres: "+Role+" ") { // The process may have ended meanwhile.
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		if err := s.awaitEnd(all[1:]); err != nil {
			return err
		}
		return s.awaitAnswer()
	}
	return nil
}

// awaitEnd returns when all these processes have ended.
func (s *Server) awaitEnd(pids []int) error {
	for until := time.Now().Add(startWithin); ; time.Sleep(5 * time.Millisecond) {
		now, err := s.Processes()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(pids, func(pid int) bool { return slices.Contains(now, pid) }) {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("processes of the server still run: %v of %v", now, pids)
		}
	}
}

// Close ends the server and removes its files.
func (s *Server) Close() error {
	var err error
	if p := s.process; p != nil {
		select {
		case <-p.ended:
		default:
			err = s.Stop(syscall.SIGQUIT)
		}
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// URL returns the URL of a schema, as a store needs it. The first store creates the schema.
func (s *Server) URL(schema string) string {
	u := url.URL{Scheme: "postgres", User: url.User(Role), Path: "/" + Role, RawQuery: url.Values{"host": {s.dir}, "search_path": {schema}}.Encode()}
	return u.String()
}
