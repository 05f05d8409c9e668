package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
)

// Time limits after the drain period. Together they take less than the five seconds that the shutdown may take.
const (
	overtime     = 3500 * time.Millisecond // for tools to react to their cancellation
	closeStreams = 800 * time.Millisecond  // for clients to read the last frames of their streams
	killTime     = 500 * time.Millisecond  // to kill processes of tools that do not end
	lastMoment   = 100 * time.Millisecond  // for loops to return after their processes were killed
)

// A Daemon is toold inside another program. It does not change the state of the process: it handles no signals, sets no runtime options and
// adopts no orphaned processes. There is one exception: the setting tracing sets the global error handler of OpenTelemetry. A Daemon writes
// its log to standard error.
type Daemon struct {
	cfg     *config.Config
	options options
}

// New returns a daemon for a configuration that package daemon/config has read and checked. It opens nothing.
func New(cfg *config.Config, opts ...Option) *Daemon {
	return &Daemon{cfg, newOptions(sandbox.NoHelper, opts)}
}

// Run opens the store, continues the calls of the last daemon and serves until ctx is done. Then it waits for running calls for the drain
// period, closes everything and returns nil. Only one Daemon at a time can run on a data directory.
func (d *Daemon) Run(ctx context.Context) error {
	running, err := newDaemon(ctx, d.cfg, d.options)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // ctx ended before the daemon served, for example while it was a standby.
		}
		return err
	}
	defer func() { _ = running.log.Sync() }() // Ignore the error, because standard error often does not support sync.
	return running.run(ctx)
}

// run serves until ctx is done, a drain is requested, or the daemon cannot continue.
func (d *daemon) run(ctx context.Context) error {
	background, stop := context.WithCancel(context.Background())
	defer stop()
	var loops sync.WaitGroup
	loops.Go(func() { _ = d.engine.Sweep(background) }) // returns no error except that of its context
	loops.Go(func() { _ = d.engine.Outbox().Run(background) })
	loops.Go(func() { _ = d.engine.Operations().Run(background) })
	loops.Go(func() { d.notify(background) })
	if d.plugins.waker != nil {
		loops.Go(func() { d.plugins.waker.Run(background, d.engine, d.log) })
	}
	loops.Go(func() { d.trim(background) })
	loops.Go(func() { d.load.Run(background, d.reading) })
	loops.Go(func() { d.checkOwners(background) })
	loops.Go(func() { d.checkStore(background) })
	loops.Go(func() {
		if err := d.engine.MeasureStorage(background); err != nil && background.Err() == nil {
			d.log.Warn("storage of namespaces not measured; will try again", zap.Error(err))
		}
	})
	loops.Go(func() { d.hangups(background) })
	if d.options.alone {
		loops.Go(func() { giveBack(background) })
	}
	loops.Go(func() { _ = d.mcp.Run(background) }) // returns no error except that of its context
	if err := d.serveMetrics(background, &loops); err != nil {
		return errors.Join(err, d.close())
	}
	writing, stopWriting := context.WithCancel(context.Background())
	defer stopWriting()
	var lines sync.WaitGroup
	lines.Go(func() { _ = d.lines.Run(writing) })
	if err := d.keepAudit(writing, &lines); err != nil {
		stopWriting()
		lines.Wait()
		return errors.Join(err, d.close())
	}
	d.serveClients(&loops)
	if err := d.announce(); err != nil {
		d.log.Warn("ready line not written", zap.Error(err))
	}
	period := d.cfg.Timeouts.Drain
	select {
	case <-ctx.Done():
		d.drains.begin(period, time.Now())
	case period = <-d.drains.wish:
	case err := <-d.failed:
		return d.abort(err)
	}
	loops.Go(func() { lines.Wait() })
	err := d.leave(period, func() { stop(); stopWriting() }, &loops)
	if errors.As(err, new(fatalError)) {
		return d.abort(err)
	}
	return errors.Join(err, d.close())
}

// serveClients serves all listeners, and reports to clients that the daemon is ready.
func (d *daemon) serveClients(loops *sync.WaitGroup) {
	serve := func(s interface{ Serve(net.Listener) error }, lis net.Listener) {
		loops.Go(func() {
			if err := s.Serve(lis); err != nil {
				d.fail(err)
			}
		})
	}
	for _, lis := range d.listeners {
		serve(d.server, lis)
	}
	if d.web != nil {
		serve(d.web, d.webAt)
	}
	d.setReady(true)
}

// leave drains the daemon, stops its loops and waits for them. It takes at most the drain period and a little less than five seconds. If a
// loop then still waits for a process, leave kills the process. For example, an MCP server may ignore both the end of its input and
// SIGTERM.
func (d *daemon) leave(period time.Duration, stop func(), loops *sync.WaitGroup) error {
	late := time.NewTimer(period + overtime + closeStreams)
	defer late.Stop()
	err := d.drain(period)
	if errors.As(err, new(fatalError)) {
		return err
	}
	stop()
	ended := make(chan struct{})
	go func() {
		loops.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-late.C:
		d.kill()
		select {
		case <-ended:
		case <-time.After(lastMoment):
		}
	}
	return err
}

// A fatalError ends the daemon at once, because the state of the store on disk is unknown.
type fatalError struct{ error }

// drain waits for running calls, ends the streams and closes the listeners. It takes at most the period and a little less than five
// seconds. While the listeners close, answers to sent notifications can still arrive.
func (d *daemon) drain(period time.Duration) error {
	d.log.Info("draining", zap.Duration("period", period), zap.Int("running", d.engine.Stats().Running))
	d.setReady(false)
	ctx, cancel := context.WithTimeout(context.Background(), period)
	defer cancel()
	drained := make(chan struct{})
	go func() {
		d.engine.Drain(ctx)
		close(drained)
	}()
	killed := d.endBackground(ctx, drained, period)
	late := time.NewTimer(period + overtime)
	defer late.Stop()
	var err error
	select {
	case <-drained:
	case failed := <-d.failed:
		return fatalError{failed}
	case <-late.C:
		err = errors.New("the journal did not store all published events in time; the next start recovers their calls")
		if n := d.engine.Stats().Running; n > 0 {
			err = fmt.Errorf("%d calls did not end in time; the next start recovers them", n)
		}
		d.kill()
	}
	<-killed
	close(d.leaving)
	closing, cancelClosing := context.WithTimeout(context.Background(), closeStreams)
	defer cancelClosing()
	d.shutdown(closing)
	return err
}

// setReady sets whether all endpoints report that clients may send requests.
func (d *daemon) setReady(ready bool) {
	d.server.SetReady(ready)
	if d.web != nil {
		d.web.SetReady(ready)
	}
}

// shutdown ends the streams of all endpoints and closes the connections at the latest when ctx is done.
func (d *daemon) shutdown(ctx context.Context) {
	d.service.Stop()
	var closing sync.WaitGroup
	if d.web != nil {
		d.endpoint.Close() // Close the MCP endpoint first: the calls of its requests then continue. A closed connection would cancel them.
		closing.Go(func() { d.web.Shutdown(ctx) })
	}
	d.server.Shutdown(ctx)
	closing.Wait()
}

// endBackground ends the background shells when no call runs any more, or when the drain period is over. Until then, calls may need the
// shells. The returned channel is closed when the shells have ended or the time limit for that is over.
func (d *daemon) endBackground(over context.Context, drained <-chan struct{}, period time.Duration) <-chan struct{} {
	killed := make(chan struct{})
	if d.jobs == nil {
		close(killed)
		return killed
	}
	bound, stop := context.WithTimeout(context.Background(), period+overtime)
	go func() {
		defer close(killed)
		defer stop()
		select {
		case <-drained:
		case <-over.Done():
		}
		d.jobs.Close(bound)
	}()
	return killed
}

// abort ends the daemon after a failure that only recovery can handle: it kills running processes and stores nothing.
func (d *daemon) abort(err error) error {
	d.log.Error("the daemon must stop", zap.Error(err))
	d.kill()
	return err
}

// kill kills the processes of calls. It stops waiting after killTime; the next start looks for processes that are left.
func (d *daemon) kill() {
	killed := make(chan struct{})
	go func() {
		_ = d.runner.Close()
		close(killed)
	}()
	select {
	case <-killed:
	case <-time.After(killTime):
	}
}

// hangups reloads the configuration at each SIGHUP.
func (d *daemon) hangups(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.hangup:
			if report := d.operations(); report != nil {
				report(ctx, service.Operation{Method: "Reload", By: tool.Principal{Namespace: "default"}, Of: map[string]string{"signal": "SIGHUP"}})
			}
			_, _ = reloader{d}.reloadAll() // reloadAll logs its result
		}
	}
}

// trimEvery is the time between two trims of ended calls. The first trim comes soon after the start.
const (
	trimEvery = 10 * time.Minute
	trimFirst = time.Minute
	trimPage  = 500
	documents = 24 * time.Hour // how long the documents of a run are kept after its last event
)

// trim converts old calls to tombstones and removes their output.
func (d *daemon) trim(ctx context.Context) {
	timer := time.NewTimer(trimFirst)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := d.trimOnce(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("old calls not trimmed; will try again", zap.Error(err))
		}
		timer.Reset(trimEvery)
	}
}

// checkOwnersEvery is the time between two checks. It may be long, because a check finds only calls that the engine lost because of a bug.
// Such a call is recovered after two checks.
const checkOwnersEvery = time.Minute

// checkOwners recovers unfinished calls on which no part of the daemon works.
func (d *daemon) checkOwners(ctx context.Context) {
	ticker := time.NewTicker(checkOwnersEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := d.engine.CheckOwners(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("owners of calls not checked; will try again", zap.Error(err))
			}
		}
	}
}

// checkStore checks a large store in the background after an unclean shutdown. Smaller stores are checked at the start.
func (d *daemon) checkStore(ctx context.Context) {
	s, ok := d.store.(interface {
		Unchecked() bool
		Check(ctx context.Context) error
	})
	if !ok || !s.Unchecked() {
		return
	}
	if err := s.Check(ctx); err != nil && ctx.Err() == nil {
		d.log.Error("the store is damaged; stop the daemon and restore a backup", zap.Error(err))
	}
}

func (d *daemon) trimOnce(ctx context.Context) error {
	for ctx.Err() == nil {
		now := d.store.Now()
		trimmed, err := d.store.Trim(ctx, now.Add(-d.cfg.Retention.Calls), now.Add(-d.cfg.Retention.Tombstones), now.Add(-documents), trimPage)
		for _, key := range trimmed {
			if err := d.store.Spool().Remove(key); err != nil {
				d.log.Warn("output of a trimmed call not removed", zap.String("call_id", key.ID), zap.Error(err))
			}
		}
		if err != nil {
			return err
		}
		if len(trimmed) < trimPage {
			return errors.Join(d.engine.Policies().Load(ctx), d.engine.Owners().DropTrimmed(ctx), d.engine.MeasureStorage(ctx))
		}
	}
	return nil
}
