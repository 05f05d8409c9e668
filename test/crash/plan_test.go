package crash_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// A plan says how a life ends.
type plan struct {
	point string // fail point, in the form name:n; empty means a random moment
	early bool   // kill before or during the daemon's recovery
	after time.Duration
}

func (p plan) String() string {
	switch {
	case p.point != "":
		return "at " + p.point
	case p.early:
		return fmt.Sprintf("%v after its start", p.after)
	}
	return fmt.Sprintf("%v into the work", p.after)
}

// failPoints returns the fail points of the engine and the journal at which a life may end. They are before and after each commit, before
// the tool starts, after it ends, before and after the commit of its result, after the commit of a cancel, and at four steps of a write of
// the journal.
func failPoints() []string {
	return []string{
		"before-commit", "after-commit", "before-tool", "after-tool", "before-result", "after-result", "after-cancel",
		"begin", "write", "commit", "committed",
	}
}

// draw decides how a life ends. Half of the lives end at a named point, and a sixth end while the daemon starts.
func draw(rng *rand.Rand) plan {
	switch n := rng.IntN(12); {
	case n < 6:
		names := failPoints()
		name := names[rng.IntN(len(names))]
		most := 40
		switch name {
		case "after-cancel":
			most = 3
		case "before-tool", "after-tool", "before-result", "after-result":
			most = 20
		}
		return plan{point: name + ":" + strconv.Itoa(1+rng.IntN(most))}
	case n < 8:
		return plan{early: true, after: time.Duration(1+rng.IntN(120)) * time.Millisecond}
	default:
		return plan{after: time.Duration(rng.IntN(400)) * time.Millisecond}
	}
}

// kills reads the number of kills from the environment.
func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv("TOOLD_CRASH_KILLS")
	if text == "" {
		return 40
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("TOOLD_CRASH_KILLS=%q: want a number of 1 or more", text)
	}
	return n
}

func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("TOOLD_CRASH_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano()) & 0xffffffffff
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatalf("TOOLD_CRASH_SEED=%q: want a number", text)
	}
	return n
}
