package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/postgres"
)

const (
	childURL   = "TOOLD_STORE_TEST_URL"   // the URL of the journal; if it is set, the test binary acts as a daemon that kills itself
	childDir   = "TOOLD_STORE_TEST_DIR"   // the daemon's directory
	childPoint = "TOOLD_STORE_TEST_POINT" // the fail point of the kill
	childCount = "TOOLD_STORE_TEST_COUNT" // how often the child reaches the point before the kill
)

// child writes calls from eight goroutines and prints each acknowledged change, until it kills itself.
func child(url string) {
	var seen, at int
	fmt.Sscan(os.Getenv(childCount), &at)
	s, err := postgres.Open(context.Background(), postgres.Config{URL: url, Dir: os.Getenv(childDir), FailPoint: func(p string) error {
		if p == os.Getenv(childPoint) {
			if seen++; seen == at {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		return nil
	}})
	if err != nil {
		fmt.Println("open", err)
		os.Exit(1)
	}
	var out sync.Mutex
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				c := newCall(fmt.Sprintf("c-%d-%d", w, i))
				change := creation(c)
				for _, to := range []call.Status{call.Running, call.Succeeded} {
					if err := s.Commit(context.Background(), change); err != nil {
						fmt.Println("commit", err)
						os.Exit(1)
					}
					out.Lock()
					fmt.Println("acknowledged", c.ID, c.Revision)
					out.Unlock()
					change = step(c, to)
				}
			}
		}()
	}
	select {}
}

// TestKill kills a process that writes, at each point of a group and in the middle of a migration (T91). Afterwards every call must have
// all acknowledged steps, and at most one further step.
func TestKill(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		point string
		count int
	}{{"migrate", 1}, {"begin", 5}, {"write", 6}, {"commit", 5}, {"committed", 7}} {
		t.Run(tt.point, func(t *testing.T) {
			url, dir := freshURL(t), t.TempDir()
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), childURL+"="+url, childDir+"="+dir, childPoint+"="+tt.point, childCount+"="+fmt.Sprint(tt.count))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			acknowledged := map[string]int64{}
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var id string
				var revision int64
				if n, _ := fmt.Sscanf(lines.Text(), "acknowledged %s %d", &id, &revision); n != 2 {
					t.Errorf("the child says %q", lines.Text())
				}
				acknowledged[id] = max(acknowledged[id], revision)
			}
			if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("the child ended with %v", err)
			}
			if tt.point != "migrate" && len(acknowledged) == 0 {
				t.Error("no commit of the child was acknowledged")
			}
			began := time.Now()
			s := open(t, postgres.Config{URL: url, Dir: dir})
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("the next daemon waited %v", took)
			}
			if tt.point == "migrate" && s.Identity().Epoch != 1 {
				t.Errorf("epoch %d after a migration that was cut off", s.Identity().Epoch)
			}
			for id, revision := range acknowledged {
				c, err := s.Call(t.Context(), key(id))
				if err != nil || c.Revision < revision || c.Revision > revision+1 {
					t.Errorf("%s: %+v, %v; acknowledged revision %d", id, c, err, revision)
				}
			}
		})
	}
}
