package service

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// Page sizes of ListCalls.
const (
	defaultPage = 50
	maxPage     = 500
)

// pageSize checks the page size that a client wants and applies the default.
func pageSize(wish int32) (int, error) {
	switch {
	case wish < 0:
		return 0, call.InvalidField("page_size", "is %d; 0 is %d", wish, defaultPage)
	case wish == 0:
		return defaultPage, nil
	}
	return int(min(wish, maxPage)), nil
}

// toQuery checks and translates the filter of a request.
func toQuery(in *tooldv1.ListCallsRequest) (*call.Query, error) {
	if err := cmp.Or(
		translate.Short("run_id", in.GetRunId(), translate.MaxRunID), translate.Short("thread_id", in.GetThreadId(), translate.MaxRunID),
		translate.Short("tool", in.GetTool(), translate.MaxFilter), translate.Short("action", in.GetAction(), translate.MaxFilter),
		translate.Short("batch_id", in.GetBatchId(), translate.MaxCallID), translate.Short("caller", in.GetCaller(), translate.MaxFilter),
		translate.Short("source", in.GetSource(), translate.MaxFilter), translate.Short("text", in.GetText(), translate.MaxFilter),
		translate.Few("statuses", len(in.GetStatuses()), maxFilters),
	); err != nil {
		return nil, err
	}
	q := &call.Query{
		Run: in.GetRunId(), Thread: in.GetThreadId(), Batch: in.GetBatchId(), Action: in.GetAction(), Caller: in.GetCaller(),
		Labels: in.GetLabels(), Text: in.GetText(),
		OldestFirst: in.GetOrder() == tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST,
	}
	if _, known := tooldv1.CallOrder_name[int32(in.GetOrder())]; !known {
		return nil, translate.UnknownEnum("order", int32(in.GetOrder()))
	}
	if q.ExpiresFirst = in.GetOrder() == tooldv1.CallOrder_CALL_ORDER_EXPIRES_FIRST; q.ExpiresFirst && !slices.Equal(in.GetStatuses(), []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED}) && len(in.GetStatuses()) > 0 {
		return nil, call.InvalidField("statuses", "must be empty or SUSPENDED with the order EXPIRES_FIRST: only suspended calls expire")
	}
	var err error
	if q.Limit, err = pageSize(in.GetPageSize()); err != nil {
		return nil, err
	}
	for i, st := range in.GetStatuses() {
		s, ok := translate.ToStatus(st)
		if !ok {
			return nil, translate.UnknownEnum("statuses["+strconv.Itoa(i)+"]", int32(st))
		}
		q.Statuses = append(q.Statuses, s)
	}
	if q.Action != "" && (len(q.Statuses) == 0 || slices.Contains(q.Statuses, call.Suspended)) {
		q.Statuses = []call.Status{call.Suspended} // Without this, the filter could match calls without an open question: only suspended calls have one.
	}
	if err := recordFilters(q, in); err != nil {
		return nil, err
	}
	if q.ExpiresFirst {
		q.Statuses = []call.Status{call.Suspended}
	}
	q.CreatedAfter, q.CreatedBefore, err = translate.ToTimes("created_after", in.GetCreatedAfter(), "created_before", in.GetCreatedBefore())
	return q, err
}

// maxFilters is the maximum number of values of one filter of ListCalls.
const maxFilters = 64

// recordFilters translates the filters of a request that have several values, except the statuses.
func recordFilters(q *call.Query, in *tooldv1.ListCallsRequest) error {
	if err := cmp.Or(
		translate.Few("tools", len(in.GetTools()), maxFilters), translate.Labels("labels", in.GetLabels()),
		translate.Few("error_codes", len(in.GetErrorCodes()), maxFilters), translate.Few("executed", len(in.GetExecuted()), maxFilters),
	); err != nil {
		return err
	}
	for i, id := range append([]string{in.GetTool()}, in.GetTools()...) {
		if err := translate.Short("tools["+strconv.Itoa(i-1)+"]", id, translate.MaxFilter); err != nil {
			return err
		}
		if id != "" {
			q.Tools = append(q.Tools, id)
		}
	}
	for i, code := range in.GetErrorCodes() {
		c, ok := translate.ToErrorCode(code)
		if !ok {
			return translate.UnknownEnum("error_codes["+strconv.Itoa(i)+"]", int32(code))
		}
		q.Errors = append(q.Errors, c)
	}
	for i, executed := range in.GetExecuted() {
		e, ok := translate.ToExecuted(executed)
		if !ok {
			return translate.UnknownEnum("executed["+strconv.Itoa(i)+"]", int32(executed))
		}
		q.Executed = append(q.Executed, e)
	}
	return nil
}

// inSpec prefixes the names of invalid fields of a spec with their path in the request.
func inSpec(err error) error {
	var refusal *call.Refusal
	if !errors.As(err, &refusal) || len(refusal.Violations) != 1 || !slices.Contains([]string{"tool", "call_id", "arguments"}, refusal.Violations[0].Field) && !strings.HasPrefix(refusal.Violations[0].Field, "run.frontend_tools") {
		return err
	}
	prefixed := *refusal
	field := "spec." + refusal.Violations[0].Field
	prefixed.Violations = []tool.Violation{{Field: field, Description: refusal.Violations[0].Description}}
	prefixed.Message = field + ": " + refusal.Violations[0].Description
	return &prefixed
}

// inBatchSpec prefixes the names of invalid fields of a batch with their path in the request.
func inBatchSpec(err error) error {
	var refusal *call.Refusal
	if !errors.As(err, &refusal) || len(refusal.Violations) != 1 || refusal.Violations[0].Field == "cursor" {
		return err
	}
	return translate.ReplaceFieldPrefix(err, "", "spec.")
}
