package postgres

import (
	"github.com/toold-dev/toold/call"
)

// A word is bound as text, and must be a constant of toold. All other strings are bound as bytes.
type word string

// bind converts arguments to the types of the columns. Strings become bytes, stamps become nanoseconds since 1970, and the zero stamp becomes
// NULL.
func bind(args []any) []any {
	for i, a := range args {
		switch v := a.(type) {
		case string:
			args[i] = []byte(v)
		case call.Stamp:
			args[i] = optional(int64(v))
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

// id returns nil, which is NULL, for an empty id: most calls have no parent and no batch.
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
