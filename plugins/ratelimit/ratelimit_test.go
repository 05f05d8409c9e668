package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/ratelimit"
	"github.com/toold-dev/toold/tool"
	"pgregory.net/rapid"
)

func limiter(t testing.TB, limits ...ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(ratelimit.Config{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func input(namespace, subject, id string) *hook.Input {
	return &hook.Input{
		Namespace: namespace, Caller: tool.Principal{Namespace: namespace, Subject: subject}, Descriptor: &tool.Descriptor{ID: id},
	}
}

// admitted reports whether a call is admitted, and else how long it must wait.
func admitted(t testing.TB, l *ratelimit.Limiter, in *hook.Input) (bool, time.Duration) {
	t.Helper()
	release, err := l.Admit(context.Background(), in)
	if err == nil {
		if release != nil {
			t.Fatal("a rate has nothing to give back")
		}
		return true, 0
	}
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != tool.ResourceExhausted || e.Reason != ratelimit.Reason || !e.Retryable || e.RetryAfter <= 0 {
		t.Fatalf("refused with %#v", err)
	}
	return false, e.RetryAfter
}

func TestRefusesAndTellsWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, ratelimit.Limit{Name: "all", Calls: 2, Per: time.Minute})
		in := input("ns", "alice", "grep")
		for range 2 {
			if ok, _ := admitted(t, l, in); !ok {
				t.Fatal("refused within the limit")
			}
		}
		ok, wait := admitted(t, l, in)
		if ok || wait < 30*time.Second || wait > 30*time.Second+2*time.Millisecond {
			t.Fatalf("admitted %t, wait %v; want 30 s", ok, wait)
		}
		time.Sleep(wait - 5*time.Millisecond)
		if ok, _ := admitted(t, l, in); ok {
			t.Error("admitted before the reported time")
		}
		time.Sleep(5 * time.Millisecond)
		if ok, _ := admitted(t, l, in); !ok {
			t.Error("refused at the reported time")
		}
	})
}

func TestModelReadsWhatToDo(t *testing.T) {
	l := limiter(t, ratelimit.Limit{Name: "web", Calls: 1, Per: time.Hour})
	admitted(t, l, input("ns", "alice", "fetch"))
	_, err := l.Admit(t.Context(), input("ns", "alice", "fetch"))
	for _, want := range []string{`"web"`, "1 calls in 1h0m0s", "Try again in", "continue without"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestCountsBy(t *testing.T) {
	same := input("ns", "alice", "grep")
	tests := []struct {
		name  string
		limit ratelimit.Limit
		other *hook.Input
		apart bool
	}{
		{"one for all", ratelimit.Limit{}, input("other", "bob", "read"), false},
		{"namespace", ratelimit.Limit{By: []ratelimit.By{ratelimit.ByNamespace}}, input("other", "alice", "grep"), true},
		{"namespace, same", ratelimit.Limit{By: []ratelimit.By{ratelimit.ByNamespace}}, input("ns", "bob", "read"), false},
		{"principal", ratelimit.Limit{By: []ratelimit.By{ratelimit.ByPrincipal}}, input("ns", "bob", "grep"), true},
		// A different principal with the same name.
		{"principal of another namespace", ratelimit.Limit{By: []ratelimit.By{ratelimit.ByPrincipal}}, input("other", "alice", "grep"), true},
		{"tool", ratelimit.Limit{By: []ratelimit.By{ratelimit.ByTool}}, input("ns", "alice", "read"), true},
		{"tool, same", ratelimit.Limit{By: []ratelimit.By{ratelimit.ByTool}}, input("other", "bob", "grep"), false},
		{"principal and tool", ratelimit.Limit{By: []ratelimit.By{ratelimit.ByPrincipal, ratelimit.ByTool}}, input("ns", "alice", "read"), true},
		{"of some tools", ratelimit.Limit{Tools: []string{"gr*"}}, input("ns", "alice", "read"), true},
		{"of some namespaces", ratelimit.Limit{Namespaces: []string{"ns"}}, input("other", "alice", "grep"), true},
		{"of some principals", ratelimit.Limit{Principals: []string{"alice"}}, input("ns", "bob", "grep"), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.limit.Name, tt.limit.Calls, tt.limit.Per = "x", 1, time.Hour
			l := limiter(t, tt.limit)
			if ok, _ := admitted(t, l, same); !ok {
				t.Fatal("the first one was refused")
			}
			if ok, _ := admitted(t, l, tt.other); ok != tt.apart {
				t.Errorf("the other one was admitted: %t, want %t", ok, tt.apart)
			}
		})
	}
}

func TestRunsAreCountedApart(t *testing.T) {
	l := limiter(t, ratelimit.Limit{Name: "run", By: []ratelimit.By{ratelimit.ByRun}, Calls: 1, Per: time.Hour})
	a, b := input("ns", "alice", "grep"), input("ns", "alice", "grep")
	a.Run.ID, b.Run.ID = "a", "b"
	admitted(t, l, a)
	if ok, _ := admitted(t, l, b); !ok {
		t.Error("another run was refused")
	}
	a.Namespace = "other"
	if ok, _ := admitted(t, l, a); !ok {
		t.Error("the run of another namespace was refused, which happens to have the same name")
	}
}

// When several limits refuse a call, the longest wait is returned, whatever their order.
func TestTellsTheLongestWait(t *testing.T) {
	short := ratelimit.Limit{Name: "short", Calls: 1, Per: time.Second}
	long := ratelimit.Limit{Name: "long", Calls: 1, Per: time.Hour}
	for _, limits := range [][]ratelimit.Limit{{short, long}, {long, short}} {
		l := limiter(t, limits...)
		admitted(t, l, input("ns", "alice", "grep"))
		if ok, wait := admitted(t, l, input("ns", "alice", "grep")); ok || wait < time.Minute {
			t.Errorf("%s first: come back in %v", limits[0].Name, wait)
		}
	}
}

func TestRefusedCallsCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t,
			ratelimit.Limit{Name: "tight", Tools: []string{"fetch"}, Calls: 1, Per: time.Hour},
			ratelimit.Limit{Name: "wide", Calls: 3, Per: time.Hour})
		admitted(t, l, input("ns", "alice", "fetch"))
		for range 10 {
			admitted(t, l, input("ns", "alice", "fetch")) // the tight limit refuses it
		}
		for i := range 2 {
			if ok, _ := admitted(t, l, input("ns", "alice", "grep")); !ok {
				t.Fatalf("call %d: refused calls took tokens of the other limit", i)
			}
		}
		if ok, _ := admitted(t, l, input("ns", "alice", "grep")); ok {
			t.Error("the wide limit does not count")
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := ratelimit.New(ratelimit.Config{Buckets: 100, Limits: []ratelimit.Limit{
			{Name: "each", By: []ratelimit.By{ratelimit.ByPrincipal}, Calls: 2, Per: time.Minute},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10_000 {
			admitted(t, l, input("ns", fmt.Sprint(i), "grep"))
		}
		if n := l.Buckets(); n != 100 {
			t.Errorf("%d buckets, want 100", n)
		}
		time.Sleep(time.Minute)
		admitted(t, l, input("ns", "late", "grep"))
		if n := l.Buckets(); n != 1 {
			t.Errorf("%d buckets; those that are full again are as good as none", n)
		}
	})
}

// A limit whose refill time overflows a time.Duration still works.
func TestSlowestLimit(t *testing.T) {
	l := limiter(t, ratelimit.Limit{Name: "slow", By: []ratelimit.By{ratelimit.ByPrincipal}, Calls: 1, Per: 30 * 24 * time.Hour, Burst: 1_000_000})
	admitted(t, l, input("ns", "alice", "grep"))
	admitted(t, l, input("ns", "bob", "grep"))
	if n := l.Buckets(); n != 2 {
		t.Errorf("%d buckets; that of alice is not full again for 80,000 years", n)
	}
}

func TestSwapKeepsWhatWasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := ratelimit.Limit{Name: "x", By: []ratelimit.By{ratelimit.ByPrincipal}, Calls: 2, Per: time.Hour}
		l := limiter(t, limit)
		in := input("ns", "alice", "grep")
		admitted(t, l, in)
		admitted(t, l, in)
		if err := l.Swap(ratelimit.Config{Limits: []ratelimit.Limit{{Name: "x"}}}); err == nil {
			t.Fatal("a wrong configuration was taken")
		}
		limit.Calls = 60
		if err := l.Swap(ratelimit.Config{Limits: []ratelimit.Limit{limit}}); err != nil {
			t.Fatal(err)
		}
		ok, wait := admitted(t, l, in)
		if ok || wait > time.Minute+time.Millisecond {
			t.Errorf("admitted %t, wait %v; the bucket is empty and fills once a minute now", ok, wait)
		}
		if err := l.Swap(ratelimit.Config{}); err != nil {
			t.Fatal(err)
		}
		if ok, _ := admitted(t, l, in); !ok {
			t.Error("refused by a limit that is gone")
		}
	})
}

func TestConfig(t *testing.T) {
	good := ratelimit.Limit{Name: "x", Calls: 1, Per: time.Second}
	tests := []struct {
		name   string
		change func(*ratelimit.Config)
		want   string
	}{
		{"no name", func(c *ratelimit.Config) { c.Limits[0].Name = "" }, "name: is required: name that the model reads"},
		{"twice", func(c *ratelimit.Config) { c.Limits = append(c.Limits, good) }, "is set twice"},
		{"no calls", func(c *ratelimit.Config) { c.Limits[0].Calls = 0 }, "calls: 0"},
		{"too many", func(c *ratelimit.Config) { c.Limits[0].Calls = 1_000_001 }, "calls: 1000001"},
		{"no time", func(c *ratelimit.Config) { c.Limits[0].Per = 0 }, "per: 0s"},
		{"for ever", func(c *ratelimit.Config) { c.Limits[0].Per = 1 << 62 }, "per: "},
		{"burst", func(c *ratelimit.Config) { c.Limits[0].Burst = -1 }, "burst: -1"},
		{"too much at once", func(c *ratelimit.Config) { c.Limits[0].Burst = 1_000_001 }, "burst: 1000001"},
		{"glob", func(c *ratelimit.Config) { c.Limits[0].Tools = []string{"["} }, "not a pattern"},
		{"by", func(c *ratelimit.Config) { c.Limits[0].By = []ratelimit.By{"caller"} }, `"caller" is not`},
		{"by twice", func(c *ratelimit.Config) { c.Limits[0].By = []ratelimit.By{"tool", "tool"} }, "is set twice"},
		{"buckets", func(c *ratelimit.Config) { c.Buckets = -1 }, "negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := ratelimit.Config{Limits: []ratelimit.Limit{good}}
			tt.change(&c)
			if _, err := ratelimit.New(c); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestNeverMoreThanTheRate checks that no period admits more calls than burst + rate × period.
func TestNeverMoreThanTheRate(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		calls, burst := rapid.IntRange(1, 50).Draw(r, "calls"), rapid.IntRange(1, 20).Draw(r, "burst")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 2000), 1, 60).Draw(r, "pauses in ms")
		synctest.Test(t, func(t *testing.T) {
			l := limiter(t, ratelimit.Limit{Name: "x", Calls: calls, Per: 10 * time.Second, Burst: burst})
			start, n := time.Now(), 0
			for _, p := range pauses {
				time.Sleep(time.Duration(p) * time.Millisecond)
				if ok, _ := admitted(t, l, input("ns", "alice", "grep")); ok {
					n++
				}
				if most := float64(burst) + time.Since(start).Seconds()*float64(calls)/10; float64(n) > most+1e-6 {
					t.Fatalf("%d admitted in %v, at most %v", n, time.Since(start), most)
				}
			}
		})
	})
}

func BenchmarkAdmit(b *testing.B) {
	l := limiter(b,
		ratelimit.Limit{Name: "others", Tools: []string{"web_*"}, Calls: 10, Per: time.Second},
		ratelimit.Limit{Name: "each", By: []ratelimit.By{ratelimit.ByPrincipal, ratelimit.ByTool}, Calls: 1_000_000, Per: time.Millisecond})
	in := input("default", "alice", "grep")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Admit(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}
