package service

import (
	"context"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
)

// A page has a limit in bytes in addition to its number of calls, because the arguments of one call may take megabytes and clients must be
// able to receive the page. The server reads a page in portions, so that the memory of a request does not depend on its page size.
const (
	pageBytes = 1 << 20
	portion   = 8 // number of calls
)

// fill appends calls to a response until it has the number of calls that q requests, or until the page is full. It sets the position of q
// to the beginning of the next page, or to 0 after the last page. A full page has at least one call. Other pages may have fewer calls than
// requested, or none.
func (s *calls) fill(ctx context.Context, resp *tooldv1.ListCallsResponse, q *call.Query, mask mask) error {
	p := access.From(ctx).Principal
	size, want, skipped := 0, q.Limit, 0
	at := *q
	for at.Limit = min(portion, want); ; {
		page, err := s.engine.List(ctx, p, at)
		if err != nil {
			return err
		}
		calls, bytes := mask.list(page)
		if size+bytes > pageBytes {
			if at.Limit > 1 {
				at.Limit /= 2 // The calls do not fit into the page. Read again with a smaller limit: only the engine knows at which position the next page must begin.
				continue
			}
			if size > 0 {
				q.After, q.AfterExpiry = at.After, at.AfterExpiry
				return nil
			}
		}
		resp.Calls = append(resp.Calls, calls...)
		for _, key := range page.Corrupt {
			resp.BrokenCallIds = append(resp.BrokenCallIds, key.ID)
		}
		size += bytes
		skipped += page.Skipped
		want -= at.Limit // Count the calls that the principal may not see, too. Otherwise a single request could read an unlimited number of such calls.
		if page.Next == 0 || skipped >= call.MaxScan || want <= 0 || size >= pageBytes {
			q.After, q.AfterExpiry = page.Next, page.NextExpiry
			return nil
		}
		at.After, at.AfterExpiry, at.Limit = page.Next, page.NextExpiry, min(at.Limit, want)
	}
}

// list translates the calls of a page. size is the number of bytes in a message that these calls and the ids of corrupt calls take.
func (m mask) list(page call.Page) (calls []*tooldv1.Call, size int) {
	for _, c := range page.Calls {
		one := m.record(c)
		calls = append(calls, one)
		size += 1 + protowire.SizeBytes(proto.Size(one))
	}
	for _, key := range page.Corrupt {
		size += 1 + protowire.SizeBytes(len(key.ID))
	}
	return calls, size
}
