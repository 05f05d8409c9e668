package service

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/peer"

	"github.com/toold-dev/toold/call"
)

// logRefusal logs refused requests. It uses the level warn for clients that are not authenticated or not permitted, and debug for all other
// refusals, which are mistakes of clients.
func (s *Service) logRefusal(ctx context.Context, r *request) error {
	err := r.next(ctx)
	if refusal, ok := errors.AsType[*call.Refusal](err); ok {
		s.logRefused(ctx, r, refusal)
	}
	return err
}

// logRefused is not part of logRefusal: the fields of the log line would enlarge the frame of logRefusal, which stays on the stack during the
// whole request.
func (s *Service) logRefused(ctx context.Context, r *request, refusal *call.Refusal) {
	level := zap.DebugLevel
	if refusal.Kind == call.Unauthenticated || refusal.Kind == call.PermissionDenied {
		level = zap.WarnLevel
	}
	entry := s.log.Check(level, "request refused")
	if entry == nil || level == zap.WarnLevel && !s.refusals.allow(time.Now()) {
		return
	}
	from := r.credential.From
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		from = p.Addr.String()
	}
	entry.Write(zap.String("method", r.name), zap.String("namespace", r.id.Namespace), zap.String("subject", r.id.Subject),
		zap.String("from", from), zap.String("reason", refusal.Reason), zap.String("why", refusal.Message), zap.Int64("left_out", s.refusals.dropped.Swap(0)))
}

// A logBudget allows at most ten lines in each second, so that a client that sends many refused requests does not fill the disk.
type logBudget struct {
	second, lines, dropped atomic.Int64
}

func (s *logBudget) allow(now time.Time) bool {
	if second := now.Unix(); s.second.Swap(second) != second {
		s.lines.Store(0)
	}
	if s.lines.Add(1) <= 10 {
		return true
	}
	s.dropped.Add(1)
	return false
}
