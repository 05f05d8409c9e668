package crash_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/store/postgres/pgtest"
)

// onPostgres lets the daemons of a loop use a PostgreSQL server as their store.
func (l *loop) onPostgres(t *testing.T) *pgtest.Server {
	t.Helper()
	server, err := pgtest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	l.serveWith = []string{"--store", server.URL("crash")}
	return server
}

// landing returns n in the landing check, and nightly in the nightly run.
func landing(n, nightly int) int {
	if os.Getenv("TOOLD_NIGHTLY") != "" {
		return nightly
	}
	return n
}

// spoil (T88) repeatedly closes every connection of the server. Sometimes it kills one process of the server, and the server then ends all
// others. Sometimes it kills or restarts the whole server. No daemon may exit because of these faults. The returned function ends the
// faults.
func spoil(t *testing.T, server *pgtest.Server, seed uint64) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var spoiling sync.WaitGroup
	ended, killed, restarts := 0, 0, 0
	spoiling.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 88))
		for n := 1; ctx.Err() == nil; n++ {
			pause(ctx, time.Duration(50+rng.IntN(300))*time.Millisecond)
			var err error
			switch {
			case n%12 == 0:
				restarts++
				err = restart(server, rng)
			case n%6 == 0:
				killed++
				err = server.KillBackend()
			default:
				ended++
				err = server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + pgtest.Role + "'")
			}
			if err != nil {
				t.Errorf("spoil the connections: %v", err)
			}
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		spoiling.Wait()
		t.Logf("ran: all connections ended %d times, a process of the server killed %d times, the server killed or restarted %d times", ended, killed, restarts)
	})
}

// TestCrashLoopPostgres is TestCrashLoop on PostgreSQL with server faults, and with a fifth of the kills.
func TestCrashLoopPostgres(t *testing.T) {
	l := newLoop(t, seed(t))
	l.calm = spoil(t, l.onPostgres(t), l.seed)
	defer l.calm()
	l.killed(t, max(kills(t)/5, 4))
}

// TestLinearizablePostgres is TestLinearizable on PostgreSQL with server faults.
func TestLinearizablePostgres(t *testing.T) {
	l := newLoop(t, seed(t))
	end := spoil(t, l.onPostgres(t), l.seed)
	defer end()
	l.linearizable(t, landing(2, 40))
	end()
}

// TestNamedPointsPostgres is TestNamedPoints on PostgreSQL. The landing check runs some of the points.
func TestNamedPointsPostgres(t *testing.T) {
	server, err := pgtest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	n := 0
	namedPoints(t, landing(6, 1), func(l *loop) {
		n++
		l.serveWith = []string{"--store", server.URL(fmt.Sprint("point", n))}
	})
}

// TestSoakPostgres is TestSoak on PostgreSQL.
func TestSoakPostgres(t *testing.T) {
	l := newLoop(t, seed(t))
	l.onPostgres(t)
	l.soak(t, landing(200, 20_000))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// restart stops the server as an administrator (SIGINT) or a crash (SIGQUIT) would, and starts it again.
func restart(server *pgtest.Server, rng *rand.Rand) error {
	how := []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT}[rng.IntN(2)]
	if err := server.Stop(how); err != nil {
		return err
	}
	return server.Resume()
}

// takesOver starts two daemons on one store; the second is a standby. It starts three calls at the first daemon, and makes this daemon fail
// with the function lose. When the second daemon serves, it runs the function then.
func takesOver(t *testing.T, l *loop, lose func(first *daemon), then func(first *daemon, second *life, endless, gated *item)) {
	t.Helper()
	l.onPostgres(t)
	l.serveWith = append(l.serveWith, "--failover-lease", "6s", "--failover-kill", "1s", "--failover-hold", "8s", "--listen-http", "127.0.0.1:0")
	first, err := l.start("")
	must(t, err)
	defer first.kill()
	if served, err := first.awaitReady(); err != nil || !served {
		t.Fatalf("served = %t, %v\n%s", served, err, first.log)
	}
	elsewhere := *l.home
	elsewhere.data = filepath.Join(l.dir, "elsewhere")
	second, err := elsewhere.start("")
	must(t, err)
	defer second.kill()
	select {
	case <-second.standby:
	case <-time.After(startWithin):
		t.Fatalf("the second daemon does not stand by\n%s", second.log)
	}
	wantStandby(t, second)

	life, err := l.begin(first, 1)
	must(t, err)
	defer life.end()
	endless, gated, done := l.one("endless"), l.one("gated"), l.one("command")
	for _, it := range []*item{endless, gated, done} {
		life.start(it, rand.New(rand.NewPCG(1, 1)))
	}
	for lines, err := l.traces(endless); err == nil && len(lines) == 0; lines, err = l.traces(endless) {
		time.Sleep(time.Millisecond) // Wait until the command has started.
	}
	lose(first)
	if served, err := second.awaitReady(); err != nil || !served {
		t.Fatalf("the standby served = %t, %v\n%s", served, err, second.log)
	}
	wantHTTP(t, second, "/readyz", http.StatusOK)
	if !second.log.tells("on standby") || !second.log.tells("was taken over") {
		t.Errorf("the log of the standby does not say what it did:\n%s", second.log)
	}
	next, err := l.begin(second, 2)
	must(t, err)
	defer next.end()
	then(first, next, endless, gated)
	if lines, err := l.traces(endless); err != nil || len(lines) != 1 {
		t.Errorf("traces of the call that ran = %v, %v, want one", lines, err)
	}
	for _, v := range l.led.Broken() {
		t.Error(v)
	}
}

// wantStandby checks that a daemon reports that it does not serve.
func wantStandby(t *testing.T, d *daemon) {
	t.Helper()
	c, err := dial(d.address)
	must(t, err)
	defer c.close()
	ctx, cancel := as(t.Context(), auto)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(c.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health of a standby = %v, %v", answer.GetStatus(), err)
	}
	_, err = c.get(ctx, "call-that-nobody-has")
	if code, reason, _ := refusal(err); code != codes.Unavailable || reason != "STANDBY" {
		t.Errorf("a standby answers %v %s", code, reason)
	}
	wantHTTP(t, d, "/healthz", http.StatusOK) // With another status, Kubernetes would restart the standby.
	wantHTTP(t, d, "/readyz", http.StatusServiceUnavailable)
	if body := wantHTTP(t, d, "/openapi.json", http.StatusServiceUnavailable); !strings.Contains(body, `"code":"unavailable"`) {
		t.Errorf("a standby answers %s", body)
	}
}

// wantHTTP checks the status of a response, and returns the body.
func wantHTTP(t *testing.T, d *daemon, path string, want int) string {
	t.Helper()
	resp, err := http.Get(d.http + path) //nolint:noctx // on loopback
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Errorf("GET %s = %d %s, %v, want %d", path, resp.StatusCode, body, err, want)
	}
	return string(body)
}

// lookAfter checks that the new owner follows the recovery table and agrees with what the first daemon published.
func lookAfter(t *testing.T, l *loop, next *life, endless, gated *item) {
	t.Helper()
	for ended := time.Now().Add(startWithin); endless.Ended() == nil && time.Now().Before(ended); pause(t.Context(), 100*time.Millisecond) {
		must(t, next.look(endless)) // The first daemon may still run this call until the hold ends.
	}
	must(t, next.verify(rand.New(rand.NewPCG(1, 1)), true))
	if end := endless.Ended(); end == nil || end.Code != tooldv1.ErrorCode_ERROR_CODE_IN_DOUBT {
		t.Errorf("the call that ran is %+v, want IN_DOUBT", end)
	}
	open, _ := gated.Waiting()
	if open == nil {
		t.Fatal("the question is gone")
	}
	next.answer(gated, open.GetSuspensionId(), yes(gated, open), false)
	if lines, err := l.traces(gated); err != nil || !slices.Equal(lines, []string{original}) {
		t.Errorf("traces = %v, %v, want one", lines, err)
	}
}

// TestT89StandbyTakesOver kills the owner while another daemon is its standby.
func TestT89StandbyTakesOver(t *testing.T) {
	t.Parallel() // The test mostly waits for a lease and a hold.
	l := newLoop(t, 89)
	takesOver(t, l, (*daemon).kill, func(_ *daemon, next *life, endless, gated *item) {
		lookAfter(t, l, next, endless, gated)
	})
}

// TestT89StoppedOwnerIsFenced stops the owner for longer than its lease, like a machine that is suspended or disconnected. When it resumes
// after another daemon has taken over, it must change nothing and exit.
func TestT89StoppedOwnerIsFenced(t *testing.T) {
	t.Parallel()
	l := newLoop(t, 8989)
	stop := func(first *daemon) { must(t, first.cmd.Process.Signal(syscall.SIGSTOP)) }
	takesOver(t, l, stop, func(first *daemon, next *life, endless, gated *item) {
		must(t, first.cmd.Process.Signal(syscall.SIGCONT))
		select {
		case <-first.ended:
		case <-time.After(startWithin):
			t.Fatalf("the daemon that was stopped lives on\n%s", first.log)
		}
		if code := first.cmd.ProcessState.ExitCode(); code <= 0 {
			t.Errorf("the daemon that was stopped ended with %v", first.cmd.ProcessState)
		}
		if !first.log.tells("another daemon has taken over the journal") {
			t.Errorf("its log does not say why it ended:\n%s", first.log)
		}
		lookAfter(t, l, next, endless, gated)
		fresh := l.one("command")
		next.start(fresh, rand.New(rand.NewPCG(1, 1)))
		must(t, next.look(fresh))
		if end := fresh.Ended(); end == nil || end.Status != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
			t.Errorf("a new call ended %+v", end)
		}
	})
}

// TestT108StoreCopy copies a store into PostgreSQL. The unfinished calls of the copy must be held until an operator confirms that no other
// daemon has continued these calls.
func TestT108StoreCopy(t *testing.T) {
	holdsElsewhere(t, 8108, func(l *loop, from, to string) {
		server := l.onPostgres(t)
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil { // The copied directory has the output of calls, which is not in PostgreSQL.
			t.Fatalf("cp: %v\n%s", err, out)
		}
		store := func() (string, error) {
			out, err := exec.Command(binary, "store", "copy", to, server.URL("crash")).CombinedOutput()
			return string(out), err
		}
		if out, err := store(); err != nil || !strings.Contains(out, "calls               3 rows\n") {
			t.Fatalf("store copy: %v\n%s", err, out)
		}
		if out, err := store(); err == nil || !strings.Contains(out, "has a store already") {
			t.Errorf("a second copy: %v\n%s", err, out)
		}
		must(t, os.Remove(filepath.Join(to, "journal.db")))
		out, err := exec.Command(binary, "store", "copy", server.URL("crash"), filepath.Join(l.dir, "back")).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "calls               3 rows\n") {
			t.Errorf("store copy, back: %v\n%s", err, out)
		}
	})
}
