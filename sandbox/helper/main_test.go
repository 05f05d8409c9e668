package helper_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox/helper"
)

func TestMain(m *testing.M) {
	if os.Args[0] == helper.Name {
		helper.Main()
	}
	os.Exit(m.Run())
}

var allowAll = []byte{0x06, 0, 0, 0, 0, 0, 0xff, 0x7f} // return SECCOMP_RET_ALLOW

// The test checks that the command does not start when the daemon died before, and starts when the daemon lives (P5).
func TestNoCommandAfterTheDaemon(t *testing.T) {
	for _, dies := range []bool{false, true} {
		dir := t.TempDir()
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
		proc, err := os.StartProcess("/proc/self/exe", []string{helper.Name}, &os.ProcAttr{
			Files: []*os.File{nil, nil, os.Stderr, theirs}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		order := &helper.Order{Version: helper.Version, Path: "/bin/sh", Args: []string{"sh", "-c", "echo x > ran"}, Dir: dir, Filter: allowAll}
		text, err := order.Encode()
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.Create(filepath.Join(t.TempDir(), "order"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(text); err != nil {
			t.Fatal(err)
		}
		status, statusEnd, _ := os.Pipe()
		controlEnd, control, _ := os.Pipe()
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := control.Write(helper.Go(0)); err != nil {
			t.Fatal(err)
		}
		if dies {
			control.Close()
		}
		var fds []int
		for _, f := range []*os.File{file, statusEnd, controlEnd, null, null, null} {
			fds = append(fds, int(f.Fd()))
		}
		if err := unix.Sendmsg(int(ours.Fd()), []byte{0}, unix.UnixRights(fds...), nil, 0); err != nil {
			t.Fatal(err)
		}
		for _, f := range []*os.File{file, statusEnd, controlEnd, null} {
			f.Close()
		}
		pid, messages := listen(t, status)
		if _, err := syscall.Wait4(pid, nil, syscall.WALL, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // If process 1 had left a command behind, it would have time to write.
		if _, err := os.Stat(filepath.Join(dir, "ran")); (err == nil) == dies {
			t.Errorf("the daemon died: %t; the command: %v; messages %v", dies, err, messages)
		}
		ours.Close()
		status.Close()
		if _, err := proc.Wait(); err != nil {
			t.Error(err)
		}
		control.Close()
	}
}

// listen returns the messages from status until it ends.
func listen(t *testing.T, status *os.File) (pid int, messages []string) {
	t.Helper()
	if err := status.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	for {
		buf := make([]byte, helper.MessageSize)
		if _, err := status.Read(buf); err != nil {
			return pid, messages
		}
		m, err := helper.Decode(buf)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == helper.Hello {
			pid = int(m.Value)
		}
		messages = append(messages, m.Text())
	}
}
