package notify_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
)

// TestT126NoLetterOfAFencedDaemon checks that a daemon that may have lost the store sends nothing and counts no failure. Sent letters
// contain the epoch and the attempt of the call.
func TestT126NoLetterOfAFencedDaemon(t *testing.T) {
	epochs := make(chan string, 1)
	r := receive(t, func(w http.ResponseWriter, req *http.Request, n int, l got) {
		epochs <- req.Header.Get("Toold-Epoch")
		fine(w, req, n, l)
	})
	o, answers := newOutbox(), make(chan error)
	o.own = func(ctx context.Context) error {
		select {
		case err := <-answers:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	n := deliver(t, o, r.target("ops"))
	in := finished("call-1")
	in.Call.Attempts = make([]call.Attempt, 3)
	o.put(n, in)
	answers <- errors.New("another daemon has taken over the journal")
	select {
	case answers <- nil: // The next attempt finds that this daemon owns the letters again.
	case <-time.After(time.Minute):
		t.Fatal("the letter is given up")
	}
	o.empty(t, "ops")
	all := r.all()
	if len(all) != 1 || all[0].data["attempt"] != 3.0 {
		t.Errorf("letters %+v", all)
	}
	if got := <-epochs; got != "7" {
		t.Errorf("epoch %q", got)
	}
	if s := n.Stats()[0]; s.Failed != 0 {
		t.Errorf("%d failures are counted", s.Failed)
	}
}
