package gating_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/tool"
)

func TestVerdicts(t *testing.T) {
	verdicts := map[byte]hook.Verdict{
		'a': hook.Allow(), 'b': hook.Block("no"), 's': hook.Suspend(tool.Ticket{Message: "?"}), 'r': hook.SetResult(tool.Text("x")), 'f': {},
	}
	tests := []struct {
		name, given string // given has one letter for the verdict of each gate; f means that the gate failed
		counts      int    // position of the gate whose verdict counts, from 1; 0 means that the call is allowed
		overruled   string
	}{
		{"none", "", 0, ""},
		{"all allow", "aaa", 0, ""},
		{"one intercepts", "aba", 2, ""},
		{"the first of equal ones counts", "ss", 1, "2"},
		{"block beats suspend", "sb", 2, "1"},
		{"suspend beats result", "rs", 2, "1"},
		{"block beats all, wherever it is", "bsr", 1, "23"},
		{"a chain", "rsb", 3, "12"},
		{"a failed gate has no verdict", "fs", 2, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, overruled := gating.NewVerdicts(), 0
			for i := range len(tt.given) {
				name := string(rune('1' + i))
				if _, over := a.Add(name, verdicts[tt.given[i]], call.GateVerdict{Gate: name}); over != "" {
					overruled++
				}
			}
			got := ""
			for _, v := range a.All {
				if v.Overruled {
					got += v.Gate
				}
			}
			counts := ""
			want := hook.KindAllow
			if tt.counts > 0 {
				counts, want = string(rune('0'+tt.counts)), verdicts[tt.given[tt.counts-1]].Kind()
			}
			if a.Gate != counts || a.Verdict.Kind() != want || got != tt.overruled || overruled != len(tt.overruled) {
				t.Errorf("gate %q counts with %s, overruled %q, reported %d times", a.Gate, a.Verdict.Kind(), got, overruled)
			}
		})
	}
}

// TestBasis checks which changes of a call make an earlier answer invalid.
func TestBasis(t *testing.T) {
	args := func(text string) tool.Arguments {
		a, err := call.Parse(text).Arguments(1 << 10)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	d := tool.Descriptor{ID: "t"}
	basis := gating.NewBasis("digest", &d, args(`{"x":1}`))
	s := call.Suspension{ID: "s", Origin: "gate", Message: "?", ExpiresAt: call.StampOf(time.Unix(1, 0)), Pending: call.Pending{Arguments: `{"x":1}`}}
	c := &call.Call{ID: "c", Tool: "t"}
	s.Digest = basis.Digest(c, &s)
	decision := tool.Decision{Action: tool.Resume, AppliesTo: s.Digest}
	c.Rounds = []call.Round{{Suspension: s, Decision: &decision}}
	isolated, connected := d, d
	isolated.RequiredIsolation, connected.RequiredNetwork = tool.IsolationFull, "open"

	tests := []struct {
		name         string
		now          gating.Basis
		shown, holds bool
	}{
		{"the same", basis, true, true},
		{"the same arguments in another order of bytes", basis.With(args(` { "x" : 1 } `)), true, true},
		{"other arguments", basis.With(args(`{"x":2}`)), true, false},
		{"another tool", gating.NewBasis("other", &d, args(`{"x":1}`)), false, false},
		{"more isolation", gating.NewBasis("digest", &isolated, args(`{"x":1}`)), false, false},
		{"another network", gating.NewBasis("digest", &connected, args(`{"x":1}`)), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.now.Shown(c, &s, 1<<10); got != tt.shown {
				t.Errorf("shown: %t", got)
			}
			if got := tt.now.Holds(c, &s, &decision, 1<<10); got != tt.holds {
				t.Errorf("holds: %t", got)
			}
			if got := tt.now.Answer(c, "gate") != nil; got != tt.holds {
				t.Errorf("answered: %t", got)
			}
			if tt.now.Answer(c, "another") != nil {
				t.Error("another gate has the answer")
			}
		})
	}
	edited := c.Rounds[0]
	edited.Suspension.Origin, edited.Decision = "another", &tool.Decision{Action: tool.Resume, Arguments: `{"x":1}`}
	c.Rounds = append(c.Rounds, edited)
	if basis.Answer(c, "gate") != nil {
		t.Error("an answer outlived arguments that came after it")
	}
}

// TestGroupsOfTickets checks which groups a ticket may name: those that an error message can contain.
func TestGroupsOfTickets(t *testing.T) {
	many := make([]string, 300)
	for i := range many {
		many[i] = "group-of-approvers"
	}
	tests := []struct {
		name   string
		groups []string
		ok     bool
	}{
		{"none", nil, true},
		{"usual", []string{"finance", "CN=Ops,OU=Groups", "équipe 1"}, true},
		{"empty", []string{"finance", ""}, false},
		{"terminal", []string{"\x1b[31mfinance"}, false},
		{"bidirectional", []string{"fin\u202eance"}, false},
		{"long", []string{strings.Repeat("x", 3000)}, false},
		{"many", many, false},
	}
	for _, tt := range tests {
		err := gating.CheckTicket(tool.Ticket{Approvers: &tool.Approvers{Groups: tt.groups}}, false)
		if (err == nil) != tt.ok || err != nil && len(err.Error()) > 200 {
			t.Errorf("%s: %v, want ok %t", tt.name, err, tt.ok)
		}
	}
}
