package service

import (
	"context"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/sandbox/isolation"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

type admin struct {
	tooldv1.UnsafeAdminServiceServer
	admin   Admin
	engine  Engine
	letters DeadLetters
	auth    *access.Auth
	guests  Guests
	tools   Tools
}

// GetInfo describes the daemon.
func (s *admin) GetInfo(ctx context.Context, _ *tooldv1.GetInfoRequest) (*tooldv1.GetInfoResponse, error) {
	i := s.admin.Info(ctx)
	l := &i.Limits
	resp := &tooldv1.GetInfoResponse{
		Version: i.Version, Commit: i.Commit, Store: i.Store, StoreId: i.StoreID, Epoch: i.Epoch, StartedAt: translate.FromTime(i.Started),
		Features: slices.Sorted(slices.Values(i.Features)), Draining: i.Draining, Namespace: access.From(ctx).Namespace,
		Addresses: translate.Each(i.Addresses, func(a *Address) *tooldv1.Address {
			return &tooldv1.Address{Network: a.Network, Address: a.Address, Tls: a.TLS}
		}),
		IsolationFacts: translate.Each(i.Isolation, func(f *isolation.NamedFact) *tooldv1.IsolationFact {
			return &tooldv1.IsolationFact{Name: f.Name, Held: f.Held, Mechanism: f.Mechanism, Detail: f.Detail}
		}),
		Limits: &tooldv1.Limits{
			Arguments: l.Arguments, Result: l.Result, Ticket: l.Ticket, Frame: translate.MaxFrame, Content: translate.MaxContent, Message: MaxMessage,
			RunningCalls: int32(l.Concurrency), QueuedCalls: int32(l.QueueLength),
			Suspension: durationpb.New(l.Suspension), Retention: durationpb.New(l.Retention),
			RunningCallsNamespace: int32(l.NamespaceConcurrency), RunningCallsPrincipal: int32(l.PrincipalConcurrency),
			RunningCallsTools: translate.Each(l.ToolConcurrency, func(t *call.ToolLimit) *tooldv1.ToolLimit {
				return &tooldv1.ToolLimit{Tools: t.Tools, Calls: int32(t.Calls)}
			}),
			QueuedCallsNamespace: int32(l.NamespaceQueue), QueuedCallsPrincipal: int32(l.PrincipalQueue),
			OpenSuspensionsNamespace: int32(l.NamespaceQuestions), OpenSuspensionsPrincipal: int32(l.PrincipalQuestions),
			CircuitFailures: int32(l.CircuitFailures), CircuitOpen: durationpb.New(l.CircuitOpen), StoredBytesNamespace: l.StoredBytes,
			OutputQuotaThread: l.OutputThread, OutputQuotaNamespace: l.OutputNamespace,
			GuestConnections: int32(s.guests.Connections), GuestStreams: int32(s.guests.Streams), GuestTime: durationpb.New(s.guests.Time), ResetsEachSecond: int32(s.guests.ResetsEach),
			Memory: memoryLimit(),
		},
	}
	p := access.From(ctx)
	if p.Has(access.Operator | access.Viewer) { // Only these roles may list all calls of the namespace.
		held, err := s.engine.Held(ctx, p.Namespace)
		if err != nil {
			return nil, err
		}
		resp.HeldCalls = int64(held)
	}
	if p.Has(access.Operator | access.Viewer | access.Administrator) {
		resp.Hooks = translate.Each(i.Hooks, fromHookState)
		for _, h := range resp.Hooks {
			if !p.Has(access.Administrator) {
				h.Place, h.LastError = "", "" // Only admins may see addresses, paths and the output of programs.
			}
		}
	}
	return resp, nil
}

// memoryLimit returns the memory limit of the Go runtime in bytes, or 0 when there is none.
func memoryLimit() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	return 0
}

func fromHookState(h *HookState) *tooldv1.HookState {
	return &tooldv1.HookState{
		Name: h.Name, Kinds: h.Kinds, Place: h.Address, Failing: h.Failing, ChangedAt: translate.FromTime(h.Since), LastError: h.LastError,
		Asked: h.Asked, Failed: h.Failed, Running: int32(h.Running), Waiting: int32(h.Waiting),
	}
}

// Reload reads the rules and the configuration again.
func (s *admin) Reload(ctx context.Context, _ *tooldv1.ReloadRequest) (*tooldv1.ReloadResponse, error) {
	r, err := s.admin.Reload(ctx)
	if err != nil {
		return nil, err
	}
	return &tooldv1.ReloadResponse{
		Changed: slices.Sorted(slices.Values(r.Changed)), NeedsRestart: slices.Sorted(slices.Values(r.NeedsRestart)),
	}, nil
}

// Drain starts the shutdown of the daemon.
func (s *admin) Drain(_ context.Context, req *tooldv1.DrainRequest) (*tooldv1.DrainResponse, error) {
	var period *time.Duration
	if req.Period != nil {
		d, err := translate.ToDuration("period", req.Period)
		if err != nil {
			return nil, err
		}
		period = &d
	}
	deadline, running := s.admin.Drain(period)
	return &tooldv1.DrainResponse{Deadline: timestamppb.New(deadline), Running: int64(running)}, nil
}

var levels = []string{"debug", "info", "warn", "error"} // the levels in the order of LogLevel; the first has the number 1

// SetLogLevel changes the level of the log.
func (s *admin) SetLogLevel(_ context.Context, req *tooldv1.SetLogLevelRequest) (*tooldv1.SetLogLevelResponse, error) {
	i := int(req.GetLevel()) - 1
	if i < 0 || i >= len(levels) {
		return nil, call.InvalidField("level", "is required: DEBUG, INFO, WARN or ERROR")
	}
	previous := s.admin.SetLogLevel(levels[i])
	return &tooldv1.SetLogLevelResponse{Previous: tooldv1.LogLevel(slices.Index(levels, previous) + 1)}, nil
}
