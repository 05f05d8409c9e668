package grpcserver_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/service"
)

// TestAdministeredState checks who sees which texts of sources and problems, and how problems are ordered and bounded.
func TestAdministeredState(t *testing.T) {
	w := newWorld(t, options{})
	admin := func(user string) tooldv1.AdminServiceClient { return tooldv1.NewAdminServiceClient(w.as(user)) }
	w.admin.problems = []service.Problem{
		{Code: "B", Subject: "y", Detail: "of a program", DetailFor: access.Administrator},
		{Code: "B", Subject: "x", Detail: "of a source", DetailFor: access.Operator | access.Administrator},
		{Code: "C", Error: true, Count: 2, Since: time.Unix(9, 0)},
	}
	for user, want := range map[string]string{"vera": "C: B:x B:y", "oscar": "C: B:xof a source B:y", "adam": "C: B:xof a source B:yof a program"} {
		got, err := admin(user).ListProblems(within(t), &tooldv1.ListProblemsRequest{})
		must(t, err)
		var list []string
		for _, p := range got.GetProblems() {
			list = append(list, p.GetCode()+":"+p.GetSubject()+p.GetDetail())
		}
		if strings.Join(list, " ") != want {
			t.Errorf("%s gets the problems %q, want %q", user, list, want)
		}
	}
	sources, err := admin("vera").ListSources(within(t), &tooldv1.ListSourcesRequest{})
	must(t, err)
	for _, s := range sources.GetSources() {
		if s.GetError() != "" || s.GetAddress() != "" || len(s.GetRefused()) > 0 {
			t.Errorf("a viewer gets %v", s)
		}
	}
	for i := range 60 {
		w.admin.problems = append(w.admin.problems, service.Problem{Code: "B", Subject: fmt.Sprint(i)})
	}
	got, err := admin("adam").ListProblems(within(t), &tooldv1.ListProblemsRequest{})
	must(t, err)
	if len(got.GetProblems()) != 51 || got.GetLeftOut() != 12 || got.GetProblems()[0].GetSeverity() != tooldv1.ProblemSeverity_PROBLEM_SEVERITY_ERROR {
		t.Errorf("%d problems, %d left out", len(got.GetProblems()), got.GetLeftOut())
	}
}

func TestRetrySource(t *testing.T) {
	w := newWorld(t, options{})
	for _, tt := range []struct {
		user, source string
		code         codes.Code
		reason       string
	}{
		{"oscar", "mcp:w", codes.OK, ""},
		{"oscar", "builtin", codes.OK, ""}, // The source is ready, so it has no error text.
		{"oscar", "", codes.InvalidArgument, "INVALID_FIELD"},
		{"oscar", "mcp:unknown", codes.NotFound, "SOURCE_NOT_FOUND"},
		{"oscar", "worker:other/p", codes.NotFound, "SOURCE_NOT_FOUND"},
		{"adam", "worker:other/down", codes.FailedPrecondition, "SOURCE_NOT_DIALED"},
		{"vera", "mcp:w", codes.PermissionDenied, "ROLE_REQUIRED"},
	} {
		got, err := tooldv1.NewAdminServiceClient(w.as(tt.user)).RetrySource(within(t), &tooldv1.RetrySourceRequest{Name: tt.source})
		wantRefusal(t, err, tt.code, tt.reason)
		if err == nil && got.GetSource().GetName() != tt.source {
			t.Errorf("retried %v, want %s", got.GetSource(), tt.source)
		}
	}
}

// TestListWorkers checks that pages contain each worker of the namespace once, in order.
func TestListWorkers(t *testing.T) {
	w := newWorld(t, options{})
	for i := range 250 {
		w.admin.workers = append(w.admin.workers, service.WorkerState{ID: fmt.Sprintf("w%03d", 249-i), Source: "worker:default/p", Namespace: "default", Tools: []string{"t"}})
	}
	w.admin.workers = append(w.admin.workers, service.WorkerState{ID: "theirs", Source: "worker:other/p", Namespace: "other"})
	for user, want := range map[string]int{"oscar": 250, "vera": 250, "adam": 251, "mallory": 1} {
		admin := tooldv1.NewAdminServiceClient(w.as(user))
		var all []string
		for token := ""; ; {
			page, err := admin.ListWorkers(within(t), &tooldv1.ListWorkersRequest{PageToken: token})
			must(t, err)
			for _, one := range page.GetWorkers() {
				if n := len(all); n > 0 && one.GetSource() == "worker:default/p" && one.GetWorkerId() <= all[n-1] {
					t.Errorf("%s follows %s", one.GetWorkerId(), all[n-1])
				}
				all = append(all, one.GetWorkerId())
			}
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		if len(all) != want {
			t.Errorf("%s lists %d workers, want %d", user, len(all), want)
		}
	}
	_, err := tooldv1.NewAdminServiceClient(w.as("oscar")).ListWorkers(within(t), &tooldv1.ListWorkersRequest{PageSize: -1})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
}

func TestGetLoad(t *testing.T) {
	w := newWorld(t, options{})
	for i := range 3 {
		w.admin.load = append(w.admin.load, service.LoadSample{Time: time.Unix(int64(10*i), 0), Running: i, Suspended: -1, Ended: 1.5, DiskFree: 7})
	}
	admin := tooldv1.NewAdminServiceClient(w.as("adam"))
	got, err := admin.GetLoad(within(t), &tooldv1.GetLoadRequest{After: &timestamppb.Timestamp{}})
	must(t, err)
	if s := got.GetSamples(); len(s) != 2 || s[0].GetRunning() != 1 || s[0].GetSuspended() != -1 || s[1].GetEndedPerSecond() != 1.5 || s[1].GetDiskFree() != 7 || got.GetInterval().AsDuration() != 10*time.Second {
		t.Errorf("got %v", got)
	}
	_, err = admin.GetLoad(within(t), &tooldv1.GetLoadRequest{After: &timestamppb.Timestamp{Nanos: -1}})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
}

// TestAuditRequests checks the fields of requests about the audit chain.
func TestAuditRequests(t *testing.T) {
	w := newWorld(t, options{})
	admin := tooldv1.NewAdminServiceClient(w.as("oscar"))
	long := strings.Repeat("x", 300)
	for _, req := range []*tooldv1.ReadAuditRequest{
		{PageSize: -1}, {After: -1}, {Before: -1, NewestFirst: true}, {Before: 3}, {After: 3, NewestFirst: true}, {Kinds: []string{"asked"}},
		{Principal: long}, {CallId: long}, {StoredAfter: &timestamppb.Timestamp{Nanos: -1}}, {StoredBefore: &timestamppb.Timestamp{Nanos: -1}},
	} {
		_, err := admin.ReadAudit(within(t), req)
		wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
	}
	link := make([]byte, 32)
	for _, req := range []*tooldv1.VerifyAuditRequest{
		{After: -1}, {After: 3}, {After: 3, Link: link[1:]}, {Link: link}, {After: 3, Link: link, FromCheckpoint: true}, {Checkpoints: strings.Repeat("x", 1<<20+1)},
	} {
		_, err := admin.VerifyAudit(within(t), req)
		wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
	}
	got, err := admin.VerifyAudit(within(t), &tooldv1.VerifyAuditRequest{After: 3, Link: link})
	if err != nil || !got.GetDone() || got.GetNewest() != nil {
		t.Errorf("got %v, %v", got, err)
	}
	list, err := admin.ListAuditCheckpoints(within(t), &tooldv1.ListAuditCheckpointsRequest{})
	if err != nil || len(list.GetCheckpoints()) != 1 || list.GetCheckpoints()[0].GetLine() != "default" || list.GetCheckpoints()[0].GetPosition() != 100 {
		t.Errorf("got %v, %v", list, err)
	}
	_, err = admin.ListAuditCheckpoints(within(t), &tooldv1.ListAuditCheckpointsRequest{Before: -1})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
}
