package grpcserver

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/translate"
)

// An outgoing frame is sent to one watcher, or to several.
type outgoing struct {
	*tooldv1.Frame
	shared *sharedFrame // nil: to one
}

// frameFor translates a frame for a watcher.
func frameFor(f *call.Frame) outgoing {
	if len(f.Events) > 0 && f.Shared != nil {
		s := sharedForm(f)
		return outgoing{s.frame, s}
	}
	return outgoing{Frame: translate.FromFrame(f)}
}

// A sharedFrame goes to several watchers.
type sharedFrame struct {
	frame *tooldv1.Frame
	watch atomic.Pointer[grpc.PreparedMsg] // the frame as WatchCalls sends it, uncompressed
}

// sharedForm returns the translation of a frame that its first watcher made.
func sharedForm(f *call.Frame) *sharedFrame {
	if made, ok := f.Shared.Made().(*sharedFrame); ok {
		return made
	}
	return makeShared(*f)
}

func makeShared(f call.Frame) *sharedFrame {
	return f.Shared.Form(func() any { return &sharedFrame{frame: translate.FromFrame(&f)} }).(*sharedFrame)
}

// uncompressed reports whether messages to a client are not compressed, so that several clients can get the same bytes.
func uncompressed(ctx context.Context) bool {
	s, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ SendCompress() string })
	return ok && s.SendCompress() == ""
}

// sendWatch sends the frame to a watcher whose messages are not compressed. The first watcher encodes it.
func (s *sharedFrame) sendWatch(stream grpc.ServerStream) error {
	m := s.watch.Load()
	if m == nil {
		m = new(grpc.PreparedMsg)
		if err := m.Encode(stream, &tooldv1.WatchCallsResponse{Frame: s.frame}); err != nil {
			return err
		}
		s.watch.Store(m)
	}
	return stream.SendMsg(m)
}
