package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/store/memory"
)

// TestHistoryIsBounded checks that one page of a history reads a bounded number of records of other tools, and that the next page continues
// there.
func TestHistoryIsBounded(t *testing.T) {
	pins, err := wire.OpenPins(t.Context(), memory.New(memory.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	pin := func(id string) {
		t.Helper()
		if err := pins.Pin("mcp:w", id, registry.Pin{Digest: id, Descriptor: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	pin("first")
	for i := range 2000 {
		pin(fmt.Sprint(i))
	}
	all, next, err := pins.History(t.Context(), "mcp:w", "first", math.MaxInt64, 10)
	if err != nil || len(all) != 0 || next == 0 {
		t.Fatalf("the first page is %v, next %d, %v", all, next, err)
	}
	all, next, err = pins.History(t.Context(), "mcp:w", "first", next, 10)
	if err != nil || len(all) != 1 || all[0].Digest != "first" || next != 0 {
		t.Errorf("the second page is %v, next %d, %v", all, next, err)
	}
}

// TestRefusalsOfAStore checks that a definition that was accepted after its refusal is no longer refused, also after a restart.
func TestRefusalsOfAStore(t *testing.T) {
	store := memory.New(memory.Config{})
	open := func() *wire.Pins {
		t.Helper()
		pins, err := wire.OpenPins(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		return pins
	}
	refused := func(p *wire.Pins) string {
		var all string
		for _, digest := range []string{"a", "b", "c"} {
			if r := p.Refused("mcp:w", "weather", digest); r != nil {
				all += r.Digest + " by " + r.By + " "
			}
		}
		pin, _ := p.Pinned("mcp:w", "weather")
		return all + "trusted " + pin.Digest
	}
	pins := open()
	pin := func(digest string) error {
		return pins.Pin("mcp:w", "weather", registry.Pin{Digest: digest, Descriptor: json.RawMessage(`{}`), By: "adam"})
	}
	refuse := func(digest string) error {
		return pins.Refuse("mcp:w", "weather", registry.Refusal{Digest: digest, Descriptor: json.RawMessage(`{}`), By: "oscar", Time: time.Unix(1, 0)})
	}
	if err := errors.Join(pin("a"), refuse("b"), refuse("c")); err != nil {
		t.Fatal(err)
	}
	if got := refused(open()); got != "b by oscar c by oscar trusted a" {
		t.Errorf("before it was accepted: %q", got)
	}
	if err := pin("b"); err != nil {
		t.Fatal(err)
	}
	for when, p := range map[string]*wire.Pins{"before a restart": pins, "after a restart": open()} {
		if got := refused(p); got != "c by oscar trusted b" {
			t.Errorf("%s: %q", when, got)
		}
	}
}
