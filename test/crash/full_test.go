package crash_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// smallDisk is large enough for a journal and its reserve of one eighth. It fills within milliseconds.
const smallDisk = 24 << 20

// A disk is a small file system mounted on a directory of a home.
type disk struct {
	t       *testing.T
	dir     string
	ballast int
}

// mountSmall mounts a small file system on a directory. This needs root. Without root, it logs this and returns nil; in CI, it fails the
// test.
func mountSmall(t *testing.T, dir string) *disk {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("mode=0700,size=%d", smallDisk)); err != nil {
		if os.Getenv("CI") == "true" || !errors.Is(err, syscall.EPERM) {
			t.Fatalf("mount of a small file system: %v", err)
		}
		t.Log("ran: full disk: NOT RUN, a small file system cannot be mounted here (it needs root)")
		return nil
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return &disk{t: t, dir: dir}
}

// fill uses all free space.
func (d *disk) fill() {
	d.t.Helper()
	d.ballast++
	f, err := os.Create(filepath.Join(d.dir, fmt.Sprint("ballast", d.ballast)))
	must(d.t, err)
	defer f.Close()
	for chunk := 1 << 20; chunk >= 1; {
		if _, err := f.Write(make([]byte, chunk)); errors.Is(err, syscall.ENOSPC) {
			chunk /= 2
		} else {
			must(d.t, err)
		}
	}
}

// takeReserve also removes the journal's reserve and fills its space.
func (d *disk) takeReserve() {
	d.t.Helper()
	// The daemon may already have released its reserve when the disk became full.
	if err := os.Remove(filepath.Join(d.dir, "reserve")); !errors.Is(err, fs.ErrNotExist) {
		must(d.t, err)
	}
	d.fill()
}

func (d *disk) free() {
	d.t.Helper()
	for ; d.ballast > 0; d.ballast-- {
		must(d.t, os.Remove(filepath.Join(d.dir, fmt.Sprint("ballast", d.ballast))))
	}
}

// full reports whether err is the refusal for lack of space.
func full(err error) bool {
	code, reason, _ := refusal(err)
	return code == codes.ResourceExhausted && reason == "STORAGE_FULL"
}

// A scene is one step of a call that happens while the disk is full.
type scene struct {
	name, kind string
	begun      bool // the call must be started while there is still space
	act        func(*life, *item) error
	// refused means that without the reserve the daemon refuses the step, and that the same request succeeds later. Otherwise the step
	// succeeds at once, or waits for space.
	refused bool
}

func scenes() []scene {
	return []scene{
		{name: "start", kind: "command", act: (*life).run, refused: true},
		{name: "start of a read-only call", kind: "grep", act: (*life).run},
		{name: "suspend", kind: "gated", act: (*life).run, refused: true},
		{name: "a tool's question", kind: "question", act: (*life).run},
		{name: "decide", kind: "gated", begun: true, act: (*life).agree, refused: true},
		{name: "answer", kind: "question", begun: true, act: (*life).agree, refused: true},
		{name: "output and finish", kind: "long", begun: true, act: (*life).attend},
		{name: "cancel", kind: "silent", begun: true, act: func(l *life, it *item) error { return l.cancel(it, 10*time.Second) }, refused: true},
	}
}

// TestFullDisk (T87, P7) fills the disk of a real daemon before each step of a call.
//
// With the reserve, the step must succeed, and later calls must be refused. Without the reserve, the step must be refused or wait. When
// there is space again, it must succeed in the same daemon. Then the test kills the daemon. The next daemon must know everything that
// clients saw.
func TestFullDisk(t *testing.T) {
	var steps atomic.Int64
	t.Run("steps", func(t *testing.T) {
		for n, sc := range scenes() {
			for _, reserve := range []bool{true, false} {
				seed := uint64(1000 + 2*n)
				if reserve {
					seed++
				}
				t.Run(fmt.Sprintf("%s, reserve %t", sc.name, reserve), func(t *testing.T) {
					t.Parallel() // the subtests mostly wait
					l := newLoop(t, seed)
					l.kinds = append(l.kinds, &kind{name: "silent", tool: "bash", caller: auto, once: true, counts: counts, arguments: command(original, silent)})
					if d := mountSmall(t, l.data); d != nil {
						l.fillUp(t, d, sc, reserve)
						steps.Add(1)
					}
				})
			}
		}
	})
	t.Logf("ran: full disk: %d steps on a file system of %d MiB", steps.Load(), smallDisk>>20)
}

// TestT28FullWorkspace (T28) checks a command that fills its workspace, which has a size limit. The command gets ENOSPC. The journal is on
// another file system, so the daemon continues: durable changes are stored, and calls that need no space run.
func TestT28FullWorkspace(t *testing.T) {
	h := newHome(t)
	if mountSmall(t, h.workspace) == nil {
		return
	}
	d, err := h.start("")
	must(t, err)
	defer d.kill()
	if served, err := d.awaitReady(); err != nil || !served {
		t.Fatalf("served = %t, %v\n%s", served, err, d.log)
	}
	c, err := dial(d.address)
	must(t, err)
	defer c.close()
	run := func(id, tool string, arguments any) string {
		t.Helper()
		ctx, cancel := as(t.Context(), auto)
		defer cancel()
		got, err := c.calls.CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: tool, CallId: "full-workspace-" + id, Arguments: jsonText(arguments)}})
		must(t, err)
		return fmt.Sprint(got.GetCall().GetStatus(), " ", got.GetCall().GetResult())
	}
	if text := run("fills", "bash", object{"command": "head -c 100M /dev/zero > big; stat -c %s big"}); !strings.Contains(text, "No space left on device") || strings.Contains(text, "104857600") {
		t.Errorf("the one that fills it: %s", text)
	}
	for i := range 3 {
		id := fmt.Sprint("after-", i)
		if text := run(id, "bench_write", benchArguments(id)); !strings.HasPrefix(text, "CALL_STATUS_SUCCEEDED") {
			t.Errorf("a durable call: %s", text)
		}
		if text := run("reads-"+id, "bash", object{"command": "wc -c < big; rm -f big; echo room > small; cat small"}); i > 0 && !strings.Contains(text, "room") {
			t.Errorf("with room again: %s", text)
		}
	}
	must(t, d.stop())
}

// silent is a command that does not end and prints nothing, because output would need space.
func silent(string) string { return "sleep 600" }

func (l *loop) fillUp(t *testing.T, d *disk, sc scene, reserve bool) {
	t.Helper()
	it, first := l.one(sc.kind), l.one("noop")
	other := l.one("noop")
	l.withDaemon(t, "", func(life *life, rng *rand.Rand) {
		must(t, life.run(first))
		if sc.begun {
			must(t, life.begun(it))
		}
		if d.fill(); !reserve {
			d.takeReserve()
		}
		acted := make(chan error, 1)
		go func() { acted <- sc.act(life, it) }()
		if reserve || sc.refused {
			if err := <-acted; reserve && err != nil || !reserve && !full(err) {
				t.Errorf("on a full disk: %v", err)
			}
		}
		if err := life.run(other); err == nil { // The request succeeded, because it used the reserve or space that an earlier write had freed.
			other = l.one("noop")
			if err := life.run(other); !full(err) {
				t.Errorf("a new call on a full disk: %v, want STORAGE_FULL", err)
			}
		}
		d.free()
		must(t, untilRoom(func() error { return life.run(other) }))
		if !reserve && !sc.refused {
			err := <-acted
			if sc.refused = full(err); !sc.refused { // The request is refused only if a write had already failed before it.
				must(t, err)
			}
		}
		if !reserve && sc.refused {
			must(t, sc.act(life, it))
		}
		must(t, life.verify(rng, true))
	})
	l.withDaemon(t, "", func(life *life, rng *rand.Rand) { must(t, life.verify(rng, true)) })
	if open, _ := it.Waiting(); it.Ended() == nil && open == nil {
		t.Error("the call neither ended nor waits")
	}
	for _, v := range l.led.Broken() {
		t.Error(v)
	}
}

// untilRoom repeats do while it is refused for lack of space. The daemon checks for space once a second.
func untilRoom(do func() error) (err error) {
	for range 300 {
		if err = do(); !full(err) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// run starts a call and follows it.
func (l *life) run(it *item) error {
	it.sent.Store(true)
	ctx, cancel := as(l.ctx, it.kind.caller)
	defer cancel()
	s, err := l.execute(ctx, it.spec, "")
	if err != nil {
		return err
	}
	return l.follow(it, s, it.Open("execute", l.epoch, nil), nil)
}

// begun starts a call, waits 100 ms for it and leaves it running.
func (l *life) begun(it *item) error {
	it.sent.Store(true)
	ctx, cancel := as(l.ctx, it.kind.caller)
	defer cancel()
	since := it.View()
	answer, err := l.calls.CallTool(ctx, &tooldv1.CallToolRequest{Spec: it.spec, Wait: duration(100 * time.Millisecond)})
	if err == nil {
		it.Record(answer.GetCall(), answer.GetCursor(), l.epoch, since)
	}
	return err
}

func (l *life) attend(it *item) error { return l.watchFrom(it, "attend", nil, true, nil) }

// agree answers the question of a call and follows the call.
func (l *life) agree(it *item) error {
	open, _ := it.Waiting()
	who := approver
	if it.kind.answer != nil {
		who = it.kind.caller
	}
	d := yes(it, open)
	it.Send(open.GetSuspensionId(), d)
	ctx, cancel := as(l.ctx, who)
	defer cancel()
	s, err := l.resume(ctx, open.GetSuspensionId(), d)
	if err != nil {
		return err
	}
	return l.follow(it, s, it.Open("resume", l.epoch, nil), nil)
}

// TestP7StartsOnAFullDisk (P7) checks a daemon that was killed while its disk was full. It must start on the full disk, with the help of
// the reserve or in read-only mode. It must answer reads, refuse new calls, and accept them again when there is space.
func TestP7StartsOnAFullDisk(t *testing.T) {
	for n, reserve := range []bool{true, false} {
		t.Run(fmt.Sprintf("reserve %t", reserve), func(t *testing.T) {
			t.Parallel() // the subtests mostly wait
			l := newLoop(t, uint64(2000+n))
			l.kinds = append(l.kinds, &kind{name: "silent", tool: "bash", caller: auto, once: true, counts: counts, arguments: command(original, silent)})
			d := mountSmall(t, l.data)
			if d == nil {
				return
			}
			waits, runs, ended, other := l.one("gated"), l.one("silent"), l.one("noop"), l.one("noop")
			l.withDaemon(t, "", func(life *life, _ *rand.Rand) {
				must(t, life.run(ended))
				must(t, life.begun(waits))
				must(t, life.begun(runs))
				if d.fill(); !reserve {
					d.takeReserve()
				}
			})
			l.withDaemon(t, "", func(life *life, rng *rand.Rand) {
				for _, it := range []*item{waits, runs, ended} {
					ctx, cancel := as(life.ctx, operator)
					_, err := life.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: it.ID})
					cancel()
					must(t, err)
				}
				if err := life.run(other); !full(err) {
					t.Errorf("a new call on a full disk: %v, want STORAGE_FULL", err)
				}
				d.free()
				must(t, untilRoom(func() error { return life.run(other) }))
				must(t, untilRoom(func() error { return life.agree(waits) }))
				must(t, life.verify(rng, true))
			})
			l.withDaemon(t, "", func(life *life, rng *rand.Rand) { must(t, life.verify(rng, true)) })
			for _, v := range l.led.Broken() {
				t.Error(v)
			}
		})
	}
}
