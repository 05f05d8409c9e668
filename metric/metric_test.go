package metric_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/metric"
)

func TestHistogram(t *testing.T) {
	h := metric.NewHistogram(1, 10, 100)
	for _, v := range []int64{-5, 0, 1, 2, 10, 11, 100, 101, math.MaxInt32} {
		h.Observe(v)
	}
	s := h.Snapshot()
	if want := []int64{3, 2, 2, 2}; s.Count() != 9 || [4]int64(s.Counts) != [4]int64(want) || s.Sum != 220+math.MaxInt32 {
		t.Errorf("%+v, want counts %v", s, want)
	}
	if n := testing.AllocsPerRun(100, func() { h.Observe(50) }); n != 0 {
		t.Errorf("an observation allocates %v times", n)
	}
}

func TestHistogramLosesNothing(t *testing.T) {
	h := metric.NewTimes()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				h.Observe(int64(time.Duration(i) * time.Millisecond))
			}
		})
	}
	all.Wait()
	if s := h.Snapshot(); s.Count() != 8000 || s.Sum != 8*int64(999*1000/2*time.Millisecond) {
		t.Errorf("%d observed, sum %d", s.Count(), s.Sum)
	}
}

func TestText(t *testing.T) {
	x := metric.NewText("t_")
	x.Counter("calls_total", "Calls.\nBy \\tool.")
	x.Value("calls_total", 3, "tool", "a\"b\\c\nd\xff", "outcome", "succeeded")
	x.Gauge("free_bytes", "Room.")
	x.Value("free_bytes", 12345678901)
	h := metric.NewHistogram(int64(time.Millisecond), int64(time.Second))
	h.Observe(0)
	h.Observe(int64(500 * time.Millisecond))
	h.Observe(int64(time.Minute))
	x.Histogram("wait_seconds", "Waiting.")
	x.Observations("wait_seconds", h.Snapshot(), 1e9, "lane", "1")
	want := `# HELP t_calls_total Calls.\nBy \\tool.
# TYPE t_calls_total counter
t_calls_total{tool="a\"b\\c\nd` + "\uFFFD" + `",outcome="succeeded"} 3
# HELP t_free_bytes Room.
# TYPE t_free_bytes gauge
t_free_bytes 12345678901
# HELP t_wait_seconds Waiting.
# TYPE t_wait_seconds histogram
t_wait_seconds_bucket{lane="1",le="0.001"} 1
t_wait_seconds_bucket{lane="1",le="1"} 2
t_wait_seconds_bucket{lane="1",le="+Inf"} 3
t_wait_seconds_sum{lane="1"} 60.5
t_wait_seconds_count{lane="1"} 3
`
	if got := x.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
