package show

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Number formats n with commas between thousands.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Size formats a number of bytes for people, such as 1.5 MiB.
func Size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f /= 1024; f < 1023.95 {
			break
		}
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") + " " + unit
}

// Duration formats d for people with at most two units, such as 2.1s, 4m10s, 3d4h.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	two := func(big, small time.Duration, b, s string) string {
		d = d.Round(small)
		if rest := d % big / small; rest > 0 {
			return fmt.Sprintf("%d%s%d%s", d/big, b, rest, s)
		}
		return fmt.Sprintf("%d%s", d/big, b)
	}
	switch {
	case d < 0:
		return "-" + Duration(-max(d, math.MinInt64+1))
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d.Round(time.Second)/time.Second)
	case d < time.Hour:
		return two(time.Minute, time.Second, "m", "s")
	case d < day:
		return two(time.Hour, time.Minute, "h", "m")
	default:
		return two(day, time.Hour, "d", "h")
	}
}

// coarse formats d like Duration but with one unit, for columns.
func coarse(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/day)
	}
}

// age returns how long ago t was, or "-" when t is not set.
func (v View) age(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return coarse(v.Now.Sub(t.AsTime()))
}

// clock formats a time with its distance from now.
func (v View) clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	at := t.AsTime()
	text := at.UTC().Format("2006-01-02 15:04:05 UTC")
	if d := v.Now.Sub(at); d >= 0 {
		return text + " (" + coarse(d) + " ago)"
	}
	return text + " (in " + Duration(at.Sub(v.Now)) + ")"
}
