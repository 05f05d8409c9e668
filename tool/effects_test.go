package tool_test

import (
	"reflect"
	"testing"

	"github.com/toold-dev/toold/tool"
)

func TestEffectsNormal(t *testing.T) {
	tests := []struct {
		name     string
		in, want tool.Effects
	}{
		{"zero is strict", tool.Effects{}, tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyMutating, Tier: tool.Confirm}},
		{
			"safety follows mutability", tool.Effects{Mutability: tool.ReadOnly},
			tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyReadOnly, Tier: tool.Confirm},
		},
		{
			"what is declared stays",
			tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyNetwork, Tier: tool.Escalate, ConcurrencySafe: true, OpenWorld: true},
			tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyNetwork, Tier: tool.Escalate, ConcurrencySafe: true, OpenWorld: true},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.in.Normal(); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Normal() = %+v, want %+v", got, tt.want)
			}
			if got := tt.want.Normal(); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Normal() of a normal form = %+v", got)
			}
		})
	}
}

func TestMilderThan(t *testing.T) {
	readOnly := tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true}
	tests := []struct {
		name     string
		e, bound tool.Effects
		want     bool
	}{
		{"the same", tool.Effects{}, tool.Effects{}, false},
		{"defaults written out", tool.Effects{Mutability: tool.Mutating, Tier: tool.Confirm}, tool.Effects{}, false},
		{"stricter in all", tool.Effects{Safety: tool.SafetyDestructive, Tier: tool.Escalate, OpenWorld: true}, readOnly, false},
		{"mutability", tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyMutating}, tool.Effects{}, true},
		{"safety", tool.Effects{Safety: tool.SafetyNetwork}, tool.Effects{Safety: tool.SafetyDestructive}, true},
		{"network is above mutating", tool.Effects{Safety: tool.SafetyMutating}, tool.Effects{Safety: tool.SafetyNetwork}, true},
		{"tier", tool.Effects{Tier: tool.Observe}, tool.Effects{}, true},
		{"tier below escalate", tool.Effects{}, tool.Effects{Tier: tool.Escalate}, true},
		{"concurrency", tool.Effects{ConcurrencySafe: true}, tool.Effects{}, true},
		{"open world", tool.Effects{}, tool.Effects{OpenWorld: true}, true},
		// One milder field is enough, even when others are stricter.
		{"mixed", tool.Effects{Tier: tool.Escalate, ConcurrencySafe: true}, tool.Effects{}, true},
		// An unknown value must never count as milder than a known one.
		{"unknown words", tool.Effects{Safety: "HARMLESS", Tier: "NONE"}, tool.Effects{Safety: tool.SafetyDestructive, Tier: tool.Escalate}, false},
		{"unknown mutability", tool.Effects{Mutability: "NONE", Safety: tool.SafetyMutating}, tool.Effects{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.e.MilderThan(tt.bound); got != tt.want {
				t.Errorf("MilderThan = %t, want %t", got, tt.want)
			}
		})
	}
}
