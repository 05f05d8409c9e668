package daemon

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/trace"
	pipelines "github.com/toold-dev/toold/lifecycle/trace"
)

// flushTime bounds the time to send the last spans at shutdown, because the receiver may be gone.
const flushTime = 300 * time.Millisecond

// openTracing starts tracing if the ratio is above zero. Otherwise no code of OpenTelemetry runs.
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
			d.log.Warn("last spans not exported", zap.Error(err))
		}
		return nil
	})
	return nil
}

func (d *daemon) tracer() pipelines.Tracer {
	if d.traces == nil {
		return nil // Return a nil interface, because an interface that holds a nil pointer is not nil.
	}
	return d.traces
}
