package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	grpcserver "github.com/toold-dev/toold/server/grpc"
	httpserver "github.com/toold-dev/toold/server/http"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/store/sqlite"
)

// A journal has the methods that a daemon needs of a store, in addition to the store contract.
type journal interface {
	store.Store
	store.RecordReader
	Acknowledge() error
	DeadLetters(ctx context.Context) (map[string]int, error)
	Free() (int64, error)
	Full() bool
	Stats() store.Stats
	SpoolCounted() bool
	SweepSpool(ctx context.Context) (removed int, err error)
	Waiting(ctx context.Context) (open map[string]int, since call.Stamp, err error)
}

// openStore opens the store. The open store gives the daemon exclusive use of the data directory.
func (d *daemon) openStore(ctx context.Context) error {
	opened, err := d.openJournal(ctx)
	if err != nil {
		return err
	}
	d.store = opened
	d.onClose(opened.Close)
	if opened.Full() {
		d.log.Error("the disk of the store is full: stored data can be read, new calls are refused, and pending changes are stored when there is space")
	}
	if opened.Identity().Clean && opened.SpoolCounted() {
		return nil
	}
	if n, err := opened.SweepSpool(ctx); err != nil {
		return fmt.Errorf("output of calls: %w", err)
	} else if n > 0 {
		d.log.Info("output of calls without a record removed", zap.Int("calls", n))
	}
	return nil
}

func (d *daemon) openJournal(ctx context.Context) (journal, error) {
	var fail func(string) error
	if point := failPoint(); point != nil {
		fail = func(name string) error { point(name); return nil }
	}
	if d.cfg.Store == "" {
		return known(sqlite.Open(ctx, sqlite.Config{Dir: d.cfg.Data, Moved: d.cfg.Moved, FailPoint: fail, Output: outputLimits(d.cfg)}))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wait := &standby{d: d, ctx: ctx, give: cancel}
	opened, err := postgres.Open(ctx, postgres.Config{
		URL: d.cfg.Store, Dir: d.cfg.Data, Moved: d.cfg.Moved, FailPoint: fail, Output: outputLimits(d.cfg), Waiting: wait.begin, Lost: d.fail,
		Lease: d.cfg.Failover.Lease, Start: d.cfg.Failover.Start, Kill: d.cfg.Failover.Kill, Hold: d.cfg.Failover.Hold,
	})
	wait.end(err == nil)
	if cause := context.Cause(ctx); cause != nil {
		if err == nil {
			cause = errors.Join(cause, opened.Close())
		}
		err = cause
	}
	return known(opened, err)
}

// own returns a function that checks whether the store still belongs to this daemon. Code that causes an effect calls it right before the
// effect. own returns nil for a store that no other daemon can take over.
func (d *daemon) own() func(context.Context) error {
	if s, ok := d.store.(store.Owned); ok {
		return s.Own
	}
	return nil
}

// startBy is like own, but the function also returns for how long a process may still be started.
func (d *daemon) startBy() func(context.Context) (time.Duration, error) {
	if s, ok := d.store.(store.Owned); ok {
		return s.StartBy
	}
	return nil
}

// known returns a nil interface on an error, so that a nil pointer does not look like an open store.
func known[S journal](s S, err error) (journal, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// A standby is a daemon that waits while another daemon owns its store. It answers requests with the status that it does not serve.
type standby struct {
	d      *daemon
	ctx    context.Context //nolint:containedctx // of the start, which it is a part of
	give   context.CancelCauseFunc
	server *grpcserver.Standby
	began  time.Time
}

// begin opens the listeners and reports the owner of the store.
func (w *standby) begin(holder string) {
	w.began = time.Now()
	w.d.log.Info("another daemon owns the store; this one is on standby", zap.String("holder", holder))
	err := w.d.tls.open(w.d.cfg)
	if err == nil {
		err = w.d.listen(w.ctx)
	}
	if err == nil {
		err = w.d.openHTTP(w.ctx)
	}
	if err != nil {
		w.give(err)
		return
	}
	w.server = grpcserver.NewStandby(w.d.tls.config())
	for _, lis := range w.d.listeners {
		w.server.Serve(lis)
	}
	if w.d.webAt != nil {
		w.server.ServeWeb(w.d.webAt, httpserver.NewStandby(w.d.tls.config("h2", "http/1.1")))
	}
	if err := w.d.announceStandby(holder); err != nil {
		w.d.log.Warn("standby line not written", zap.Error(err))
	}
}

// end stops the server of the standby. The listeners stay open for the daemon. took says whether the daemon now owns the store.
func (w *standby) end(took bool) {
	if w.server != nil {
		w.server.Stop()
	}
	if took && !w.began.IsZero() {
		w.d.log.Warn("the store was taken over from another daemon", zap.Duration("waited", time.Since(w.began)))
	}
}

// standbyLine is the line that a standby prints for the program that started it. A ready line follows when the daemon serves.
type standbyLine struct {
	Ready   bool   `json:"ready"` // always false
	Standby bool   `json:"standby"`
	Holder  string `json:"holder"`
	TCP     string `json:"tcp,omitempty"`
	Unix    string `json:"unix,omitempty"`
	HTTP    string `json:"http,omitempty"`
	PID     int    `json:"pid"`
}

func (d *daemon) announceStandby(holder string) error {
	s := standbyLine{Standby: true, Holder: holder, PID: os.Getpid()}
	for _, a := range d.addresses {
		if a.Network == "tcp" {
			s.TCP = a.Address
		} else {
			s.Unix = a.Address
		}
	}
	if d.webAt != nil {
		at := service.Address{Address: d.webAt.Addr().String(), TLS: d.cfg.TLS.Cert != ""}
		s.HTTP = at.URL()
	}
	out := d.options.out
	if f, ok := out.(*os.File); !ok || !isTerminal(f) {
		return json.NewEncoder(out).Encode(s)
	}
	_, err := fmt.Fprintf(out, "toold %s is on standby (pid %d): %s owns the store\n", d.version, s.PID, holder)
	return err
}
