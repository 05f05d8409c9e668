package postgres

import "time"

// A word is text that only we choose; other strings are bytes.
type word string

// bind turns arguments into what the columns take: strings are bytes, times are nanoseconds since 1970, a zero time is
// NULL.
func bind(args []any) []any {
	for i, a := range args {
		switch v := a.(type) {
		case string:
			args[i] = []byte(v)
		case time.Time:
			args[i] = optional(nanos(v))
		case []string:
			all := make([][]byte, len(v))
			for n, s := range v {
				all[n] = []byte(s)
			}
			args[i] = all
		}
	}
	return args
}

// id is NULL when it is empty: most calls have no parent and no batch.
func id(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func optional(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(n *int64) time.Time {
	if n == nil || *n == 0 {
		return time.Time{}
	}
	return time.Unix(0, *n).UTC()
}
