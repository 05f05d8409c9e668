package service

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/translate"
)

// An outgoing frame is sent to one or several watchers.
type outgoing struct {
	*tooldv1.Frame
	shared *sharedFrame // nil for a frame to one watcher
	inbox  *call.InboxChange
}

// frameFor translates a frame for a watcher.
func frameFor(f *call.Frame) outgoing {
	if len(f.Events) > 0 && f.Shared != nil {
		s := sharedForm(f)
		return outgoing{Frame: s.frame, shared: s}
	}
	return outgoing{Frame: translate.FromFrame(f), inbox: f.Inbox}
}

// A sharedFrame is sent to several watchers.
type sharedFrame struct {
	frame *tooldv1.Frame
	watch atomic.Pointer[grpc.PreparedMsg] // the encoded and uncompressed frame for WatchCalls
}

// sharedForm returns the translation of a frame. It translates the frame for the first watcher, and reuses the translation for later ones.
func sharedForm(f *call.Frame) *sharedFrame {
	if made, ok := f.Shared.Made().(*sharedFrame); ok {
		return made
	}
	return makeShared(*f)
}

func makeShared(f call.Frame) *sharedFrame {
	return f.Shared.Form(func() any { return &sharedFrame{frame: translate.FromFrame(&f)} }).(*sharedFrame)
}

// uncompressed reports whether messages to a client are not compressed. Only clients without compression can share the same bytes.
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
