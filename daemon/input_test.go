package daemon

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestInputAttaches checks a user who attaches to a call with a terminal. The user sees the earlier output, types, resizes, detaches,
// attaches again and ends the call.
func TestInputAttaches(t *testing.T) {
	s := newSite(t, bashAllowed)
	p := s.start()
	const command = `printf '\033[?25l\033[6n'; read -p 'name? ' x; echo "hello $x"; trap 'echo interrupted' INT; ` +
		`until [ "$key" = q ]; do read -rsn1 key; ` +
		`while [ "$key" = s ] && [ "$(stty size)" != '30 100' ]; do sleep 0.02; done; [ -n "$key" ] && printf 'key %d\n' "'$key"; done`
	spec := bash("attached", "")
	arguments, err := json.Marshal(map[string]any{"pty": map[string]any{}, "command": command})
	must(t, err)
	spec.Arguments = string(arguments)
	call := execute(t, p, spec)
	eventually(t, "it prints", func() bool { return call.has(isOutput) })

	x := s.terminal(t, 80, 24, nil, "input", spec.GetCallId())
	x.expect("ctrl-] d detaches", "name?")
	x.press("anna\r")
	x.expect("hello anna")
	x.resize(100, 30)
	must(t, x.cmd.Process.Signal(syscall.SIGWINCH))
	x.press("s") // the call answers when the size is right
	x.expect("key 115")
	// The call gets the interrupt. Another key follows at once: if the interrupt comes just before a read, bash may run its trap only after
	// the next key.
	x.press("\x03k\x1d\x1d\x1dz")
	x.expect("interrupted", "key 107", "key 29", "key 122")
	x.press("\x1dd")
	if code := x.end(); code != 0 {
		t.Errorf("exit code %d after it detached\n%s", code, x.text())
	}
	x.isRestored()
	if st := statusNow(t, p, "attached"); st != tooldv1.CallStatus_CALL_STATUS_RUNNING {
		t.Errorf("the call is %v after somebody detached", st)
	}

	x = s.terminal(t, 80, 24, nil, "input", spec.GetCallId())
	x.expect("hello anna", "key 122")
	x.press("q")
	if code := x.end(); code != 0 {
		t.Errorf("exit code %d after the end\n%s", code, x.text())
	}
	x.isRestored()
	if f := lastFinished(call.last(t)); f.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		t.Errorf("the call ended %v", f)
	}
}

// TestInputLeavesADeafCall checks a call that reads no input. A user can detach from it even when the buffer for waiting input is full.
func TestInputLeavesADeafCall(t *testing.T) {
	s := newSite(t, bashAllowed)
	p := s.start()
	spec := bash("deaf", "")
	spec.Arguments = `{"pty":{},"command":"stty raw -echo; echo ready; sleep 600"}`
	call := execute(t, p, spec)
	eventually(t, "it prints", func() bool { return call.has(isOutput) })
	x := s.terminal(t, 80, 24, nil, "input", spec.GetCallId())
	x.expect("ready")
	x.press(strings.Repeat("x", 100<<10))
	x.press("\x1dd")
	if code := x.end(); code != 0 {
		t.Errorf("exit code %d after it detached\n%s", code, x.text())
	}
	x.isRestored()
	_, err := p.calls.CancelCall(within(t), &tooldv1.CancelCallRequest{CallId: spec.GetCallId(), Wait: durationpb.New(10 * time.Second)})
	must(t, err)
}

// A signal ends the command and restores the terminal.
func TestInputRestoresWhenItIsEnded(t *testing.T) {
	s := newSite(t, bashAllowed)
	p := s.start()
	spec := bash("ended", "")
	spec.Arguments = `{"pty":{},"command":"echo ready; sleep 600"}`
	call := execute(t, p, spec)
	eventually(t, "it prints", func() bool { return call.has(isOutput) })
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		x := s.terminal(t, 80, 24, nil, "input", spec.GetCallId())
		x.expect("ready")
		must(t, x.cmd.Process.Signal(signal))
		if code := x.end(); code == 0 {
			t.Errorf("%v: exit code 0", signal)
		}
		x.isRestored()
	}
	_, err := p.calls.CancelCall(within(t), &tooldv1.CancelCallRequest{CallId: spec.GetCallId(), Wait: durationpb.New(10 * time.Second)})
	must(t, err)
}
