package daemon

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/trace"
	pipelines "github.com/toold-dev/toold/lifecycle/trace"
)

// flushTime is for the last spans, when the daemon ends: it must not wait for a receiver that has gone.
const flushTime = 300 * time.Millisecond

// openTracing follows calls when a share of them is configured. Nothing of OpenTelemetry runs otherwise.
func (d *daemon) openTracing(ctx context.Context) error {
	c := d.cfg.Tracing
	if c.Ratio == 0 {
		return nil
	}
	log := d.log
	traces, err := trace.New(ctx, trace.Config{Ratio: c.Ratio, Endpoint: c.Endpoint, Version: d.version, OnError: func(err error) {
		log.Warn("tracing", zap.Error(err))
	}})
	if err != nil {
		return err
	}
	d.traces = traces
	d.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		if err := traces.Close(ctx); err != nil {
			d.log.Warn("the last spans are lost", zap.Error(err))
		}
		return nil
	})
	return nil
}

func (d *daemon) tracer() pipelines.Tracer {
	if d.traces == nil {
		return nil // and not one that holds nothing
	}
	return d.traces
}
