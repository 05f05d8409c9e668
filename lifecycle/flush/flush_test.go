package flush_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/lifecycle/flush"
)

func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var written, flushed []int
		var slow time.Duration
		b := flush.New(func(item int, done func(int)) {
			time.Sleep(slow)
			mu.Lock()
			written = append(written, item)
			mu.Unlock()
			done(item)
		}, func(item int) {
			mu.Lock()
			defer mu.Unlock()
			flushed = append(flushed, item)
		})
		began := time.Now()
		for i := range 3 {
			b.Add(i)
		}
		if b.Count() != 3 || len(written) > 0 {
			t.Fatalf("%d wait, %v written", b.Count(), written)
		}
		b.Write(7) // Write writes its item alone, before the items that wait.
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if want := []int{7, 0, 1, 2}; !slices.Equal(written, want) || !slices.Equal(flushed, want[1:]) || b.Count() != 0 {
			t.Fatalf("after %v %v written, %v flushed, %d wait", time.Since(began), written, flushed, b.Count())
		}

		slow = time.Second
		began = time.Now()
		for i := range 512 { // The last of these items starts a flush at once.
			b.Add(i)
		}
		synctest.Wait()
		b.Add(1000)
		b.Settle()
		if d := time.Since(began); d < 512*time.Second || b.Count() != 0 {
			t.Errorf("settled after %v, %d wait", d, b.Count())
		}
	})
}

func TestPostponedItemsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := 0
		b := flush.New(func(int, func(int)) {}, func(int) {})
		b.Postpone(5, func(item int) { again = item })
		if b.Count() != 1 || b.Full() {
			t.Errorf("%d wait, full %t", b.Count(), b.Full())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if again != 5 || b.Count() != 0 {
			t.Errorf("again %d, %d wait", again, b.Count())
		}
	})
}
