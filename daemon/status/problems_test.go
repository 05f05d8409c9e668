package status_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/toold-dev/toold/daemon/status"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/sandbox/isolation"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
)

// TestProblems checks the codes of the problems that follow from facts. Each problem must say what is wrong and what to do.
func TestProblems(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	// falling returns samples of an hour in which the free space goes from one value to another.
	falling := func(from, to int64) []service.LoadSample {
		return []service.LoadSample{{Time: now.Add(-time.Hour), DiskFree: from}, {Time: now, DiskFree: to}}
	}
	busy := slices.Repeat([]service.LoadSample{{Queued: 1, DiskFree: -1}}, 60)
	const gib = 1 << 30
	for name, tt := range map[string]struct {
		facts status.Facts
		want  []string
	}{
		"nothing":           {status.Facts{Samples: falling(50*gib, 50*gib), Certificate: now.Add(15 * 24 * time.Hour)}, nil},
		"hook fails":        {status.Facts{Hooks: []service.HookState{{Name: "good"}, {Name: "scan", Health: hook.Health{Failing: true, LastError: "gone"}}}}, []string{"HOOK_FAILING"}},
		"source down":       {status.Facts{Sources: []tool.SourceStatus{{Name: "mcp:a", State: tool.SourceDown, Error: "e"}, {Name: "mcp:b", State: tool.SourceReady}}}, []string{"SOURCE_DOWN"}},
		"source again":      {status.Facts{Sources: []tool.SourceStatus{{Name: "mcp:a", State: tool.SourceConnecting, Error: "e"}, {Name: "mcp:new", State: tool.SourceConnecting}}}, []string{"SOURCE_DOWN"}},
		"no worker":         {status.Facts{Sources: []tool.SourceStatus{{Name: "worker:n/p", State: tool.SourceDown}}}, []string{"POOL_EMPTY"}},
		"refused":           {status.Facts{Sources: []tool.SourceStatus{{Name: "mcp:a", State: tool.SourceReady, Refused: []tool.RefusedTool{{}}}}}, []string{"TOOLS_REFUSED"}},
		"circuit":           {status.Facts{Circuits: []string{"mcp:a"}}, []string{"CIRCUIT_OPEN"}},
		"quarantine":        {status.Facts{Quarantined: []tool.QuarantinedTool{{}}}, []string{"TOOL_QUARANTINED"}},
		"held, letters":     {status.Facts{Held: 1, DeadLetters: map[string]int{"n": 2}}, []string{"CALLS_HELD", "DEAD_LETTERS"}},
		"no isolation":      {status.Facts{Isolation: status.Isolation{Off: true, Missing: []isolation.NamedFact{{Name: "net"}}}}, []string{"ISOLATION_OFF"}},
		"isolation missing": {status.Facts{Isolation: status.Isolation{Missing: []isolation.NamedFact{{Name: "net"}, {Name: "fs_read"}}}}, []string{"ISOLATION_MISSING", "ISOLATION_MISSING"}},
		"disk full":         {status.Facts{Full: true, Samples: falling(2, 1)}, []string{"DISK_FULL"}},
		"disk low":          {status.Facts{Samples: falling(gib-1, gib-1)}, []string{"DISK_LOW"}},
		"disk fills":        {status.Facts{Samples: falling(50*gib, 47*gib)}, []string{"DISK_FILLING"}},                                                                 // full in 16 hours
		"disk fills slowly": {status.Facts{Samples: falling(50*gib, 49*gib)}, nil},                                                                                      // full in 49 hours
		"disk just filled":  {status.Facts{Samples: []service.LoadSample{{Time: now.Add(-5 * time.Minute), DiskFree: 50 * gib}, {Time: now, DiskFree: 40 * gib}}}, nil}, // no trend yet
		"disk unknown":      {status.Facts{Samples: falling(-1, -1)}, nil},
		"busy":              {status.Facts{Samples: busy}, []string{"SLOTS_BUSY"}},
		"busy with a pause": {status.Facts{Samples: append(slices.Clone(busy), service.LoadSample{DiskFree: -1})}, nil},
		"certificate":       {status.Facts{Certificate: now.Add(13 * 24 * time.Hour)}, []string{"CERTIFICATE_EXPIRES"}},
		"old certificate":   {status.Facts{Certificate: now.Add(-time.Second)}, []string{"CERTIFICATE_EXPIRED"}},
		"token":             {status.Facts{Tokens: []access.Expiring{{Name: "ci", Expires: now}}}, []string{"TOKEN_EXPIRES"}},
		"audit":             {status.Facts{Broken: 7, Unsigned: errors.New("read-only")}, []string{"AUDIT_BROKEN", "AUDIT_UNSIGNED"}},
	} {
		tt.facts.Now = now
		var got []string
		for _, p := range status.Problems(&tt.facts) {
			got = append(got, p.Code)
			if p.Text == "" || p.Remedy == "" || p.Detail != "" && p.DetailFor == 0 {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestExpiresSoon checks that tokens which were made for a short time are not reported.
func TestExpiresSoon(t *testing.T) {
	now, day := time.Unix(1_800_000_000, 0), 24*time.Hour
	for _, tt := range []struct {
		created, expires time.Duration // created: time before now; expires: time after now
		want             bool
	}{{90 * day, 6 * day, true}, {90 * day, 8 * day, false}, {time.Hour, time.Hour, false}, {7 * day, 6 * day, false}, {9 * day, 6 * day, true}} {
		if got := status.ExpiresSoon(now.Add(-tt.created), now.Add(tt.expires), now); got != tt.want {
			t.Errorf("made %v ago for another %v: %t", tt.created, tt.expires, got)
		}
	}
	if !status.ExpiresSoon(time.Time{}, now.Add(day), now) {
		t.Error("a token of the configuration is not reported")
	}
}
