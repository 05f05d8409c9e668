package crash_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestT108SecondDaemon starts a second daemon on a store that is in use.
func TestT108SecondDaemon(t *testing.T) {
	h := newHome(t)
	first, err := h.start("")
	must(t, err)
	defer first.kill()
	if served, err := first.awaitReady(); err != nil || !served {
		t.Fatalf("served = %t, %v\n%s", served, err, first.log)
	}
	second, err := h.start("")
	must(t, err)
	defer second.kill()
	if served, err := second.awaitReady(); err != nil || served {
		t.Fatalf("the second daemon served = %t, %v", served, err)
	}
	if code := second.cmd.ProcessState.ExitCode(); code <= 0 {
		t.Errorf("the second daemon ended with %v", second.cmd.ProcessState)
	}
	if !second.log.tells("in use", strconv.Itoa(first.pid)) {
		t.Errorf("the refusal does not name the holder %d:\n%s", first.pid, second.log)
	}
	must(t, first.stop())
}

// TestT108CopiedStore kills a daemon and starts another daemon on a copy of its store. The unfinished calls may have continued in the
// original store. The new daemon therefore holds them until an operator confirms that the store was only moved.
func TestT108CopiedStore(t *testing.T) {
	holdsElsewhere(t, 108, func(_ *loop, from, to string) {
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v\n%s", err, out)
		}
	})
}

// TestT86SalvagedStore damages the header of a store. No daemon may open the store. After "toold salvage", the new store must behave as in
// TestT108CopiedStore.
func TestT86SalvagedStore(t *testing.T) {
	holdsElsewhere(t, 86, func(_ *loop, from, to string) {
		path := filepath.Join(from, "journal.db")
		b, err := os.ReadFile(path)
		must(t, err)
		copy(b, "broken")
		must(t, os.WriteFile(path, b, 0o600))
		out, err := exec.Command(binary, "serve", "--data", from, "--workspace", t.TempDir()).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "not a journal of toold") {
			t.Errorf("a daemon on the damaged store: %v\n%s", err, out)
		}
		out, err = exec.Command(binary, "salvage", from, to).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "calls               3 rows\n") {
			t.Fatalf("salvage: %v\n%s", err, out)
		}
	})
}

// held checks that neither call continues, and returns the question of the call gated.
func (l *life) held(t *testing.T, gated, endless *item) *tooldv1.Suspension {
	t.Helper()
	open, _ := gated.Waiting()
	ctx, cancel := as(l.ctx, approver)
	defer cancel()
	s, err := l.resume(ctx, open.GetSuspensionId(), yes(gated, open))
	if err == nil {
		_, err = s.next()
	}
	if code, reason, _ := refusal(err); code != codes.FailedPrecondition || reason != "CALL_HELD" {
		t.Errorf("a decision for a held call = %v, want FAILED_PRECONDITION CALL_HELD", err)
	}
	caller, cancelCaller := as(l.ctx, auto)
	defer cancelCaller()
	answer, err := l.get(caller, endless.ID)
	if err != nil || answer.GetCall().GetStatus() != tooldv1.CallStatus_CALL_STATUS_RUNNING {
		t.Errorf("the held call is %v, %v, want RUNNING as it was", answer.GetCall().GetStatus(), err)
	}
	return open
}

// holdsElsewhere moves or copies a store with unfinished calls to another directory and checks that they are held.
func holdsElsewhere(t *testing.T, seed uint64, bring func(l *loop, from, to string)) {
	t.Helper()
	l := newLoop(t, seed)
	items := map[string]*item{}
	l.withDaemon(t, "", func(life *life, rng *rand.Rand) {
		for _, name := range []string{"gated", "endless", "command"} {
			items[name] = l.one(name)
			life.start(items[name], rng)
		}
	})
	copied := filepath.Join(l.dir, "copy")
	bring(l, l.data, copied)
	must(t, os.RemoveAll(l.data)) // The copy is now the only store, so the operator's statement that the store was only moved is true.
	l.data = copied
	gated, endless := items["gated"], items["endless"]

	d := l.withDaemon(t, "", func(life *life, rng *rand.Rand) {
		life.held(t, gated, endless)
		fresh := l.one("command")
		life.start(fresh, rng)
		must(t, life.look(fresh))
		if end := fresh.Ended(); end == nil || end.Status != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
			t.Errorf("a new call ended %+v", end)
		}
	})
	if !d.log.tells("held", "--moved") {
		t.Errorf("the log does not say what to do:\n%s", d.log)
	}

	l.serveWith = append(l.serveWith, "--moved")
	l.withDaemon(t, "", func(life *life, rng *rand.Rand) {
		must(t, life.verify(rng, true))
		if end := endless.Ended(); end == nil || end.Code != tooldv1.ErrorCode_ERROR_CODE_IN_DOUBT {
			t.Errorf("after --moved the call that had run is %+v, want IN_DOUBT", end)
		}
		open, _ := gated.Waiting()
		if open == nil {
			t.Fatal("the question is gone")
		}
		life.answer(gated, open.GetSuspensionId(), yes(gated, open), false)
		if lines, err := l.traces(gated); err != nil || strings.Join(lines, " ") != original {
			t.Errorf("traces = %v, %v, want one", lines, err)
		}
	})
	for _, v := range l.led.Broken() {
		t.Error(v)
	}
}
