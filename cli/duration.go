package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// never is a duration without end.
const never = time.Duration(-1)

// parseDuration reads a duration as Go writes it; d is a day, never has no end.
func parseDuration(text string) (time.Duration, error) {
	if text == "never" {
		return never, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 30s, 10m, 12h or 7d", text)
	}
	return d, nil
}
