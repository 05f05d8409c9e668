package wire

import (
	"context"

	"github.com/toold-dev/toold/server"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

func (e *engine) DeadLetters(ctx context.Context, p tool.Principal, after int64, limit int) (dead []server.DeadLetter, err error) {
	actions, err := e.Outbox().DeadLetters(ctx, p, after, limit)
	for i := range actions {
		dead = append(dead, deadLetter(&actions[i]))
	}
	return dead, err
}

func (e *engine) RetryDeadLetter(ctx context.Context, p tool.Principal, id string) (*server.DeadLetter, error) {
	a, err := e.Outbox().RetryDeadLetter(ctx, p, id)
	if err != nil {
		return nil, err
	}
	d := deadLetter(a)
	return &d, nil
}

func deadLetter(a *store.Action) server.DeadLetter {
	d := server.DeadLetter{
		Action: a.Action, ID: a.ID, CallID: a.CallID, Run: a.Run, Thread: a.Thread, Caller: a.Caller,
		Round: a.Round, Attempts: a.Attempts, Error: a.Error, Created: a.Created, Position: a.Position,
	}
	if a.Broken {
		d.Error = "its stored row is damaged"
	}
	return d
}
