package crash_test

import (
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestT108RestoredBackup makes a backup of a busy daemon, restores it in another directory and starts a daemon on it. Calls stay held until
// an operator releases them. Then they continue as after a crash.
func TestT108RestoredBackup(t *testing.T) {
	l := newLoop(t, 208)
	items := map[string]*item{}
	saved, restored := filepath.Join(l.data, "backups", "saved"), filepath.Join(l.dir, "restored")
	l.withDaemon(t, "", func(life *life, rng *rand.Rand) {
		for _, name := range []string{"gated", "endless", "command"} {
			items[name] = l.one(name)
			life.start(items[name], rng)
		}
		ctx, cancel := as(life.ctx, operator)
		defer cancel()
		got, err := life.admin.Backup(ctx, &tooldv1.BackupRequest{Directory: saved})
		if err != nil || got.GetCalls() != 3 || got.GetBytes() == 0 {
			t.Fatalf("backup: %v, %v", got, err)
		}
		_, err = life.admin.Backup(ctx, &tooldv1.BackupRequest{Directory: saved})
		if code, reason, _ := refusal(err); code != codes.FailedPrecondition || reason != "BACKUP_FAILED" {
			t.Errorf("a second backup in its place: %v", err)
		}
	})
	out, err := exec.Command(binary, "restore", saved, restored).CombinedOutput()
	if err != nil || !strings.Contains(string(out), ": 3 calls, ") {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	gated, endless := items["gated"], items["endless"]
	traced, err := l.traces(endless)
	must(t, err)

	l.data = restored
	l.withDaemon(t, "", func(life *life, _ *rand.Rand) {
		open := life.held(t, gated, endless)
		admin, cancelAdmin := as(life.ctx, operator)
		defer cancelAdmin()
		got, err := life.admin.ReleaseCalls(admin, &tooldv1.ReleaseCallsRequest{All: true})
		if err != nil || got.GetReleased() != 2 || got.GetHeld() != 0 {
			t.Errorf("released: %v, %v", got, err)
		}
		if c := life.awaitStatus(t, endless); c.GetResult().GetError().GetCode() != tooldv1.ErrorCode_ERROR_CODE_IN_DOUBT {
			t.Errorf("the call that had run is %v, want IN_DOUBT", c)
		}
		life.answer(gated, open.GetSuspensionId(), yes(gated, open), false)
		if lines, err := l.traces(gated); err != nil || strings.Join(lines, " ") != original {
			t.Errorf("traces = %v, %v, want one", lines, err)
		}
		if lines, err := l.traces(endless); err != nil || len(lines) != len(traced) {
			t.Errorf("traces of the call in doubt = %v, %v, before %v", lines, err, traced)
		}
	})
	l.withDaemon(t, "", func(life *life, _ *rand.Rand) { // Calls that were released must not be held again.
		admin, cancel := as(life.ctx, operator)
		defer cancel()
		if got, err := life.admin.ReleaseCalls(admin, &tooldv1.ReleaseCallsRequest{All: true}); err != nil || got.GetReleased() != 0 {
			t.Errorf("released again: %v, %v", got, err)
		}
	})
	for _, v := range l.led.Broken() {
		t.Error(v)
	}
}
