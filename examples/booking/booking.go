// Package booking is a tool that names the resources of its calls, so that bookings of different rooms run at the same time.
package booking

import (
	"context"
	"strings"
	"sync"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

// Args are the room and the day.
type Args struct {
	Room string `json:"room" jsonschema:"The name of the room, such as Lisbon."`
	Day  string `json:"day" jsonschema:"The day, such as 2026-11-24."`
}

// New returns the booking tool.
func New() tool.Tool {
	rooms := &rooms{taken: map[Args]bool{}}
	return typed.New(tool.Descriptor{
		ID:          "book",
		Description: "Books a meeting room for a day.",
		Effects:     tool.Effects{Tier: tool.Observe},
		Mildest:     &tool.Effects{Tier: tool.Observe, Resources: []tool.Resource{{Kind: "room"}}},
	}, rooms.book, typed.WithAssess(func(args Args) tool.Effects {
		return tool.Effects{Tier: tool.Observe, Resources: []tool.Resource{{Kind: "room", ID: strings.ToLower(args.Room)}}}
	}))
}

type rooms struct {
	mu    sync.Mutex
	taken map[Args]bool
}

func (r *rooms) book(_ context.Context, _ *tool.Call, args Args) (*tool.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	args.Room = strings.ToLower(args.Room)
	if r.taken[args] {
		return tool.Fail("room %q is taken on %s", args.Room, args.Day), nil
	}
	r.taken[args] = true
	return tool.Text("booked"), nil
}
