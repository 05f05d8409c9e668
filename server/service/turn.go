package service

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/turns"
	"github.com/toold-dev/toold/translate"
	"github.com/toold-dev/toold/turn"
)

// ExecuteTurn starts a turn or attaches to it, and streams it.
func (s *calls) ExecuteTurn(req *tooldv1.ExecuteTurnRequest, stream grpc.ServerStreamingServer[tooldv1.ExecuteTurnResponse]) error {
	ctx := stream.Context()
	w, err := s.startTurn(ctx, access.From(ctx), req)
	if err != nil {
		return err
	}
	return s.pump(ctx, w, nil, func(f outgoing) error {
		return stream.Send(&tooldv1.ExecuteTurnResponse{Frame: f.Frame})
	})
}

// GetTurn streams the messages of a turn.
func (s *calls) GetTurn(req *tooldv1.GetTurnRequest, stream grpc.ServerStreamingServer[tooldv1.GetTurnResponse]) error {
	ctx := stream.Context()
	wait, err := toWait(req.GetWait(), 0)
	if err != nil {
		return err
	}
	leave, err := s.watchers.acquire(access.From(ctx)) // Check the limit of watchers first, because the messages take much memory.
	if err != nil {
		return err
	}
	waiting, cancel := untilDeadline(ctx)
	defer cancel()
	if until, ok := waiting.Deadline(); ok {
		wait = min(wait, time.Until(until)) // Shortly before the deadline, return the turn in its current state instead of no answer.
	}
	w, err := s.turns.Get(ctx, access.From(ctx).Principal, turns.Query{
		ID: req.GetTurnId(), Wait: wait, Placeholders: req.GetPlaceholders(), Late: req.GetLateCallIds(),
	})
	if err != nil {
		leave()
		return err
	}
	return s.pump(ctx, w, leave, func(f outgoing) error {
		return stream.Send(&tooldv1.GetTurnResponse{Frame: f.Frame})
	})
}

// startTurn starts a turn or attaches to it.
func (s *calls) startTurn(ctx context.Context, p *access.Identity, req *tooldv1.ExecuteTurnRequest) (call.Stream, error) {
	r, err := toTurn(req.GetSpec())
	if err == nil {
		err = p.MayActFor(r.Call.OnBehalfOf)
	}
	if err != nil {
		return nil, err
	}
	w, err := s.turns.Execute(ctx, p.Principal, r, call.ExecuteOptions{Cursor: req.GetCursor(), WaitForDecision: req.GetWaitForDecision()})
	if err != nil {
		return nil, inTurnSpec(err)
	}
	return w, nil
}

// inTurnSpec changes the fields in a refusal of the batch to the fields of the turn's request. For example, a call of the batch becomes a
// call in the message.
func inTurnSpec(err error) error {
	var refusal *call.Refusal
	if !errors.As(err, &refusal) || len(refusal.Violations) != 1 {
		return err
	}
	v := refusal.Violations[0]
	if strings.HasPrefix(v.Field, "calls[") && !strings.Contains(v.Field, "].run") {
		return call.InvalidField("spec.message", "%s %s", v.Field, v.Description)
	}
	if _, run, ok := strings.Cut(v.Field, "].run"); ok {
		return call.InvalidField("spec.run"+run, "%s", v.Description)
	}
	return inBatchSpec(err)
}

func toTurn(in *tooldv1.TurnSpec) (r turns.Request, err error) {
	if in == nil {
		return r, call.InvalidField("spec", "is required")
	}
	r.Request = turn.Request{
		Strict: in.GetStrict(), StopReason: in.GetStopReason(), Message: []byte(in.GetMessage()), OwnTools: in.GetOwnTools(),
	}
	r.ID = in.GetTurnId()
	if r.Provider, err = toTurnProvider(in.GetProvider()); err != nil {
		return r, err
	}
	if r.BatchOptions, err = translate.ToBatchOptions(in, call.Auto); err != nil {
		return r, err
	}
	r.Call, err = translate.ToTurnCall(in)
	return r, err
}

func toTurnProvider(p tooldv1.TurnProvider) (turn.Provider, error) {
	switch p {
	case tooldv1.TurnProvider_TURN_PROVIDER_UNSPECIFIED:
		return "", call.InvalidField("spec.provider", "is required")
	case tooldv1.TurnProvider_TURN_PROVIDER_OPENAI:
		return turn.OpenAI, nil
	case tooldv1.TurnProvider_TURN_PROVIDER_OPENAI_RESPONSES:
		return turn.OpenAIResponses, nil
	case tooldv1.TurnProvider_TURN_PROVIDER_ANTHROPIC:
		return turn.Anthropic, nil
	case tooldv1.TurnProvider_TURN_PROVIDER_GEMINI:
		return turn.Gemini, nil
	case tooldv1.TurnProvider_TURN_PROVIDER_AI_SDK:
		return turn.AISDK, nil
	}
	return "", translate.UnknownEnum("spec.provider", int32(p))
}
