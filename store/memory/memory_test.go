package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(_ *testing.T, o storetest.Options) store.Store { return memory.New(memory.Config{Now: o.Now}) },
		Reopen: func(_ *testing.T, s store.Store, _ storetest.Options) store.Store {
			return s.(*memory.Store).Reopen()
		},
		Crash: func(_ *testing.T, s store.Store, _ storetest.Options) store.Store { return s.(*memory.Store).Crash() },
	})
}

func TestSpool(t *testing.T) {
	storetest.RunSpool(t, storetest.SpoolHarness{
		Open:    func(*testing.T) store.Spool { return memory.NewSpool(store.OutputLimits{}) },
		Limited: func(_ *testing.T, limits store.OutputLimits) store.Spool { return memory.NewSpool(limits) },
		Reopen:  func(_ *testing.T, s store.Spool) store.Spool { return s.(*memory.Spool).Reopen() },
	})
}

func newCall(id string) *call.Call {
	return &call.Call{Namespace: "ns", ID: id, Status: call.New, Revision: 1, LastSequence: 1}
}

func creation(id string, d store.Durability) *store.Change {
	return &store.Change{Call: newCall(id), Create: true, Events: []call.Event{{Sequence: 1}}, Durability: d}
}

// A power loss removes Normal changes without a later Full change; kill -9 removes nothing.
func TestLosePower(t *testing.T) {
	for _, power := range []bool{false, true} {
		s := memory.New(memory.Config{})
		for id, d := range map[string]store.Durability{"normal1": store.Normal, "normal2": store.Normal} {
			if err := s.Commit(t.Context(), creation(id, d)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Commit(t.Context(), creation("full", store.Full)); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), creation("late", store.Normal)); err != nil {
			t.Fatal(err)
		}
		next := s.Crash
		if power {
			next = s.LosePower
		}
		n := next()
		for id, want := range map[string]bool{"normal1": true, "normal2": true, "full": true, "late": !power} {
			_, err := n.Call(t.Context(), call.Key{Namespace: "ns", ID: id})
			if (err == nil) != want {
				t.Errorf("power %t: %s: %v", power, id, err)
			}
		}
		if err := n.Commit(t.Context(), creation("after", store.Full)); err != nil {
			t.Error(err)
		}
		if err := s.Commit(t.Context(), creation("dead", store.Full)); !errors.Is(err, store.ErrClosed) {
			t.Errorf("the dead store answers %v", err)
		}
	}
}

func TestFail(t *testing.T) {
	fail := store.ErrFull
	s := memory.New(memory.Config{Fail: func(*store.Change) error { return fail }})
	if err := s.Commit(t.Context(), creation("a", store.Full)); !errors.Is(err, store.ErrFull) {
		t.Errorf("Commit = %v, want ErrFull", err)
	}
	fail = nil
	if err := s.Commit(t.Context(), creation("a", store.Full)); err != nil {
		t.Errorf("Commit with space = %v", err)
	}
	fail = store.ErrFatal
	for range 2 { // After the first ErrFatal, every request fails.
		if err := s.Commit(t.Context(), creation("b", store.Full)); !errors.Is(err, store.ErrFatal) {
			t.Errorf("Commit = %v, want ErrFatal", err)
		}
		fail = nil
	}
	if _, err := s.Call(t.Context(), call.Key{Namespace: "ns", ID: "a"}); !errors.Is(err, store.ErrFatal) {
		t.Errorf("Call = %v, want ErrFatal", err)
	}
}

func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		before := s.Now()
		time.Sleep(time.Hour)
		if got := s.Now().Sub(before); got != time.Hour {
			t.Errorf("the store's clock moved %v, want an hour", got)
		}
		s.Submit(creation("a", store.Full), func(err error) {
			if err != nil {
				t.Error(err)
			}
			s.Now() // The callback may call methods of the store.
		})
	})
}
