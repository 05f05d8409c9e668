// Package status reports the state of a daemon: its load in the latest hour, what is wrong, and what to do about it.
package status

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/toold-dev/toold/server/service"
)

// Interval is the time between two samples.
const Interval = 10 * time.Second

// kept is the number of samples of one hour.
const kept = int(time.Hour / Interval)

// A Reading has the numbers of a daemon for one sample.
type Reading struct {
	Running, Queued int
	Suspended       int64 // -1 when unknown
	Ended, Failed   int64 // since the daemon started; Ended includes Failed
	DiskFree        int64 // -1 when unknown
}

// A Load keeps the samples of the latest hour, about 32 KB. Sampling costs the other parts of the daemon nothing: it reads numbers that
// they count anyway.
type Load struct {
	mu      sync.Mutex
	samples [kept]service.LoadSample
	taken   int // number of samples since the start
}

// Run takes a sample at each interval until ctx is done.
func (l *Load) Run(ctx context.Context, read func(context.Context) Reading) {
	before, cpu, at := read(ctx), processorTime(), time.Now()
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, used, time := read(ctx), processorTime(), time.Now()
		seconds := time.Sub(at).Seconds()
		l.add(service.LoadSample{
			Time: time, Running: now.Running, Queued: now.Queued, Suspended: now.Suspended, DiskFree: now.DiskFree, Memory: residentMemory(),
			Ended: float64(now.Ended-before.Ended) / seconds, Failed: float64(now.Failed-before.Failed) / seconds, CPU: (used - cpu).Seconds() / seconds,
		})
		before, cpu, at = now, used, time
	}
}

func (l *Load) add(s service.LoadSample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.samples[l.taken%kept] = s
	l.taken++
}

// Samples returns the samples, oldest first.
func (l *Load) Samples() []service.LoadSample {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken <= kept {
		return append([]service.LoadSample(nil), l.samples[:l.taken]...)
	}
	from := l.taken % kept
	return append(append(make([]service.LoadSample, 0, kept), l.samples[from:]...), l.samples[:from]...)
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// residentMemory returns the resident memory of this process in bytes, or 0 when the system does not say it.
func residentMemory() int64 {
	text, err := os.ReadFile("/proc/self/statm") // sizes in pages: total, resident, …
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
