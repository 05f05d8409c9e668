package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// State reports the load, the workers and the problems of a daemon.
type State interface {
	// Retry makes the daemon connect to a source that is down. It returns false when the daemon does not connect to this source.
	Retry(source string) bool
	// Workers lists the connected workers of all namespaces, in any order.
	Workers() []WorkerState
	// Load returns the samples of the latest hour, oldest first, and the time between two samples.
	Load() ([]LoadSample, time.Duration)
	// Problems lists what is wrong in the daemon and in the namespaces that the identity oversees.
	Problems(ctx context.Context, id *access.Identity) ([]Problem, error)
}

// A WorkerState is a connected worker.
type WorkerState struct {
	ID, Source, Namespace, Pool, Name, Version, Principal string

	Tools           []string // sorted
	Labels          map[string]string
	Connected, Seen time.Time
	MaxCalls        int
	Running         int
	Calls           []string // some of the running calls, sorted
	Draining        bool
}

// A LoadSample is the load of a daemon at one time.
type LoadSample struct {
	Time          time.Time
	Running       int
	Queued        int
	Suspended     int64   // -1 when unknown
	Ended, Failed float64 // calls per second since the previous sample; Ended includes Failed
	Memory        int64   // resident memory in bytes
	CPU           float64 // number of processors in use since the previous sample
	DiskFree      int64   // free bytes; -1 when unknown
}

// A Problem is something that is wrong now. The proto message of the same name describes the fields.
type Problem struct {
	Code    string
	Error   bool // true for an error, false for a warning
	Subject string
	Text    string
	Detail  string
	// DetailFor has the roles that may see Detail.
	DetailFor access.Roles
	Remedy    string
	Command   string
	Since     time.Time
	Count     int64
}

const (
	maxWorkerPage  = 100
	maxWorkerCalls = 100
	maxProblems    = 50 // maximum number of problems with one code
)

// RetrySource connects to a source that is down.
func (s *admin) RetrySource(ctx context.Context, req *tooldv1.RetrySourceRequest) (*tooldv1.RetrySourceResponse, error) {
	if err := translate.Required("name", req.GetName()); err != nil {
		return nil, err
	}
	found := func() *tool.SourceStatus {
		all := s.admin.Sources()
		i := slices.IndexFunc(all, func(o tool.SourceStatus) bool {
			return o.Name == req.GetName() && access.From(ctx).Oversees(o.Namespace)
		})
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	source := found()
	switch {
	case source == nil:
		return nil, call.Refuse(call.NotFound, "SOURCE_NOT_FOUND", "there is no source %q; ListSources lists them", clip(req.GetName(), translate.MaxFilter))
	case source.State == tool.SourceDown && !s.admin.Retry(source.Name):
		return nil, call.Refuse(call.FailedPrecondition, "SOURCE_NOT_DIALED", "the daemon does not connect to %q; it is ready again when a worker connects", source.Name)
	}
	return &tooldv1.RetrySourceResponse{Source: fromSource(cmp.Or(found(), source))}, nil
}

// ListWorkers returns a page of the connected workers of the principal's namespace; an admin gets all workers.
func (s *admin) ListWorkers(ctx context.Context, req *tooldv1.ListWorkersRequest) (*tooldv1.ListWorkersResponse, error) {
	id, size := access.From(ctx), int(req.GetPageSize())
	if size < 0 {
		return nil, call.InvalidField("page_size", "is %d; 0 is %d", size, maxWorkerPage)
	}
	if size == 0 || size > maxWorkerPage {
		size = maxWorkerPage
	}
	b := bind("workers", id.Namespace, id.Subject)
	after, err := open(req.GetPageToken(), b)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(s.admin.Workers(), func(w WorkerState) bool { return workerKey(&w) <= string(after) || !id.Oversees(w.Namespace) })
	slices.SortFunc(all, func(x, y WorkerState) int { return cmp.Compare(workerKey(&x), workerKey(&y)) })
	resp, bytes := &tooldv1.ListWorkersResponse{}, 0
	for i := range all {
		w := fromWorkerState(&all[i])
		if !id.Has(access.Operator|access.Viewer) || all[i].Namespace != id.Namespace {
			w.CallIds = nil // The principal may not see these calls.
		}
		if bytes += proto.Size(w); i == size || i > 0 && bytes > maxExport {
			resp.NextPageToken = seal([]byte(workerKey(&all[i-1])), b)
			break
		}
		resp.Workers = append(resp.Workers, w)
	}
	return resp, nil
}

// workerKey returns the sort key of a worker. Ids are unique.
func workerKey(w *WorkerState) string { return w.Source + "\x00" + w.Name + "\x00" + w.ID }

func fromWorkerState(w *WorkerState) *tooldv1.Worker {
	return &tooldv1.Worker{
		WorkerId: w.ID, Source: w.Source, Pool: w.Pool, Name: w.Name, Version: w.Version, Principal: w.Principal, Tools: w.Tools, Labels: w.Labels,
		ConnectedAt: translate.FromTime(w.Connected), HeardAt: translate.FromTime(w.Seen), MaxCalls: int32(w.MaxCalls), Running: int32(w.Running),
		CallIds: w.Calls[:min(len(w.Calls), maxWorkerCalls)], Draining: w.Draining,
	}
}

// GetLoad returns the samples of the latest hour.
func (s *admin) GetLoad(_ context.Context, req *tooldv1.GetLoadRequest) (*tooldv1.GetLoadResponse, error) {
	after, err := translate.ToTime("after", req.GetAfter())
	if err != nil {
		return nil, err
	}
	samples, interval := s.admin.Load()
	resp := &tooldv1.GetLoadResponse{Interval: durationpb.New(interval)}
	for i := range samples {
		if o := &samples[i]; o.Time.After(after) {
			resp.Samples = append(resp.Samples, &tooldv1.LoadSample{
				Time: timestamppb.New(o.Time), Running: int32(o.Running), Queued: int32(o.Queued), Suspended: o.Suspended,
				EndedPerSecond: o.Ended, FailedPerSecond: o.Failed, Memory: o.Memory, Cpu: o.CPU, DiskFree: o.DiskFree,
			})
		}
	}
	return resp, nil
}

// ListProblems lists what is wrong now.
func (s *admin) ListProblems(ctx context.Context, _ *tooldv1.ListProblemsRequest) (*tooldv1.ListProblemsResponse, error) {
	id := access.From(ctx)
	all, err := s.admin.Problems(ctx, id)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		if a.Error != b.Error {
			return map[bool]int{true: -1, false: 1}[a.Error]
		}
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Subject, b.Subject))
	})
	resp, of := &tooldv1.ListProblemsResponse{}, map[string]int{}
	for _, p := range all {
		if of[p.Code]++; of[p.Code] > maxProblems {
			resp.LeftOut++
			continue
		}
		if !id.Has(p.DetailFor) {
			p.Detail = ""
		}
		severity := tooldv1.ProblemSeverity_PROBLEM_SEVERITY_WARNING
		if p.Error {
			severity = tooldv1.ProblemSeverity_PROBLEM_SEVERITY_ERROR
		}
		resp.Problems = append(resp.Problems, &tooldv1.Problem{
			Code: p.Code, Severity: severity, Subject: p.Subject, Text: p.Text, Detail: clip(p.Detail, maxStatus), Remedy: p.Remedy, Command: p.Command,
			Since: translate.FromTime(p.Since), Count: p.Count,
		})
	}
	return resp, nil
}
