package grpcserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestListPagesAreBoundedInBytes checks that a page is never larger than clients accept, and that the next page continues after it. Without
// this limit, a few large calls would make the inbox unreadable for approvers. Fields that a read mask removes do not count.
func TestListPagesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	ctx := within(t)
	var want []string
	for i := range 24 {
		id, text := longID(fmt.Sprintf("large-%d", i)), "small"
		if i%3 == 0 || i == 4 {
			text = strings.Repeat("x", 250<<10)
		}
		resp, err := w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{
			Spec: &tooldv1.CallSpec{Tool: "write", CallId: id, Arguments: `{"text":"` + text + `"}`},
		})
		must(t, err)
		if c := resp.GetCall(); c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUSPENDED {
			t.Fatalf("%v: %v", c.GetStatus(), c.GetResult().GetError())
		}
		want = append(want, id)
	}
	for _, req := range []*tooldv1.ListCallsRequest{
		{PageSize: 500, Statuses: []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED}},
		{PageSize: 500, Order: tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST},
		{PageSize: 5},
	} {
		var got []string
		for {
			resp, err := w.calls("ann").ListCalls(ctx, req)
			if req.GetStatuses() == nil {
				resp, err = w.calls("vera").ListCalls(ctx, req)
			}
			must(t, err)
			if n := len(resp.GetCalls()); n > 1 && proto.Size(resp) > 1<<20+100 || n == 0 || n > int(req.GetPageSize()) {
				t.Errorf("a page of %d calls and %d bytes", n, proto.Size(resp))
			}
			for _, c := range resp.GetCalls() {
				got = append(got, c.GetCallId())
			}
			if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		if req.GetOrder() != tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	}
	resp, err := w.calls("vera").ListCalls(ctx, &tooldv1.ListCallsRequest{ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"call_id"}}})
	must(t, err)
	if len(resp.GetCalls()) != len(want) || resp.GetNextPageToken() != "" {
		t.Errorf("%d calls, masked", len(resp.GetCalls()))
	}
}
