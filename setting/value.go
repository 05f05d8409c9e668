package setting

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Never is the value of a duration without limit.
const Never = time.Duration(-1)

var durationType = reflect.TypeFor[time.Duration]()

// Parse sets a value from the text of a flag or an environment variable.
func Parse(to reflect.Value, text string) error {
	switch to := to.Addr().Interface().(type) {
	case *time.Duration:
		d, err := ParseDuration(text)
		*to = d
		return err
	case *time.Time:
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fmt.Errorf("%q is not a time such as 2027-01-31T00:00:00Z", text)
		}
		*to = at
		return nil
	case encoding.TextUnmarshaler:
		return to.UnmarshalText([]byte(text))
	}
	switch to.Kind() {
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		to.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number such as 0.1", text)
		}
		to.SetFloat(f)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		to.SetBool(b)
	default:
		to.SetString(text)
	}
	return nil
}

// Text returns a value as text, in the form that [Parse] accepts.
func Text(v reflect.Value) string {
	switch v := v.Interface().(type) {
	case time.Duration:
		return DurationText(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	default:
		return fmt.Sprint(v)
	}
}

// ParseDuration parses a duration in Go's format. It also accepts the unit d for days, and the word never, which means no limit ([Never]).
func ParseDuration(text string) (time.Duration, error) {
	if text == "never" {
		return Never, nil
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

// DurationText returns a short text that [ParseDuration] reads as d.
func DurationText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "never"
	case d > 0 && d%day == 0:
		return strconv.Itoa(int(d/day)) + "d"
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}
