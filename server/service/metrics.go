package service

import (
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/toold-dev/toold/server/access"
)

// A method is an entry of the table of package access, with its interceptors and the counts of its requests.
type method struct {
	access.Rule
	meter
	interceptors []interceptor
}

// A meter counts the requests of one method.
type meter struct {
	running atomic.Int64
	ended   [codes.Unauthenticated + 1]atomic.Int64
}

func (m *meter) end(c codes.Code) {
	m.running.Add(-1)
	if int(c) >= len(m.ended) {
		c = codes.Unknown
	}
	m.ended[c].Add(1)
}

// MethodStats has the counts of one method since the start.
type MethodStats struct {
	Running int64
	Ended   map[codes.Code]int64 // has only codes that have occurred
}

// Stats returns the counts of each method, by its full name.
func (s *Service) Stats() map[string]MethodStats {
	stats := make(map[string]MethodStats, len(s.methods))
	for name, m := range s.methods {
		one := MethodStats{Running: m.running.Load(), Ended: map[codes.Code]int64{}}
		for c := range m.ended {
			if n := m.ended[c].Load(); n > 0 {
				one.Ended[codes.Code(c)] = n
			}
		}
		stats[name] = one
	}
	return stats
}
