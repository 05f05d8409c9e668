package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
)

// asAgent is an environment variable with the address of a daemon. When it is set, this test binary acts as the agent of
// sdk/testdata/agent.jsonl.
const asAgent = "TOOLD_TEST_AS_AGENT"

// agentPlayer prints a line for each step. The first error ends it.
type agentPlayer struct {
	client *toold.Client
	tools  *toold.Toolset
	out    *json.Encoder
	ctx    context.Context
}

func playAgent(address string) (err error) {
	defer func() {
		if failed, ok := recover().(agentFailed); ok {
			err = failed.error
		}
	}()
	client, err := toold.Dial(address, toold.WithToken(os.Getenv("TOOLD_TEST_TOKEN")))
	if err != nil {
		return err
	}
	defer client.Close()
	p := &agentPlayer{client: client, out: json.NewEncoder(os.Stdout), ctx: context.Background()}
	p.tools = sure(client.Toolset(p.ctx, toold.Anthropic, toold.ToolsetConfig{Allow: []string{"greet", "asks"}, OwnTools: []string{"mine"}}))
	var tools []struct{ Name string }
	if err := json.Unmarshal(p.tools.Tools(), &tools); err != nil {
		return err
	}
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	p.tell(object{"step": "toolset", "tools": names, "changed": sure(p.tools.Refresh(p.ctx))})
	p.identity()
	p.questions()
	p.cancels()
	return nil
}

type agentFailed struct{ error }

// sure returns v. If there is an error, sure panics, which ends playAgent.
func sure[T any](v T, err error) T {
	if err != nil {
		panic(agentFailed{err})
	}
	return v
}

func (p *agentPlayer) tell(what object) { sure(0, p.out.Encode(what)) }

func (p *agentPlayer) turn(id, run, thread string, calls ...object) *toold.Turn {
	message := sure(json.Marshal(object{"role": "assistant", "stop_reason": "tool_use", "content": calls}))
	return p.tools.Turn(&tooldv1.TurnSpec{TurnId: id, Message: string(message), Run: &tooldv1.Run{RunId: run, ThreadId: thread}})
}

func use(id, name string, input object) object {
	return object{"type": "tool_use", "id": id, "name": name, "input": input}
}

// texts returns the ids and texts of the answers.
func texts(messages []json.RawMessage) [][2]string {
	var all [][2]string
	for _, m := range messages {
		var message struct {
			Content []struct {
				ID      string `json:"tool_use_id"`
				Content json.RawMessage
			}
		}
		sure(0, json.Unmarshal(m, &message))
		for _, b := range message.Content {
			text, blocks := "", []struct{ Text string }{}
			if json.Unmarshal(b.Content, &text) != nil {
				sure(0, json.Unmarshal(b.Content, &blocks))
				text = blocks[0].Text
			}
			all = append(all, [2]string{b.ID, text})
		}
	}
	return all
}

func (p *agentPlayer) identity() {
	calls := []object{use("t1", "greet", object{"name": "Ada"}), use("t2", "mine", object{}), use("t3", "tells", object{}), use("t4", "greet", object{"name": "Bob"})}
	id, finished := toold.NewTurnID(), 0
	r := sure(p.turn(id, "r1", "t1", calls...).Run(p.ctx, toold.RunOptions{OnEvent: func(e *tooldv1.CallEvent) {
		if e.GetFinished() != nil {
			finished++
		}
	}}))
	var own [][]any
	for _, n := range r.NotHandled {
		own = append(own, []any{n.GetIndex(), n.GetId()})
	}
	p.tell(object{"step": "turn", "not_handled": own, "finished": finished})
	p.tell(object{"step": "merge", "texts": texts(sure(r.Merge([]json.RawMessage{json.RawMessage(`{"type":"tool_result","tool_use_id":"t2","content":"mine"}`)})))})
	again := sure(p.turn(id, "r1", "t1", calls...).Run(p.ctx, toold.RunOptions{}))
	p.tell(object{"step": "repeat", "same": fmt.Sprint(again.Messages) == fmt.Sprint(r.Messages)})
	_, err := p.turn(id, "r1", "t1", use("t1", "greet", object{"name": "Eve"})).Run(p.ctx, toold.RunOptions{})
	var e *toold.Error
	if errors.As(err, &e) {
		p.tell(object{"step": "refused", "reason": e.Reason, "hint": e.Hint() != ""})
	}
}

// questions starts two calls that ask. The agent answers the first from the inbox. The test answers the second after it has killed the
// daemon.
func (p *agentPlayer) questions() {
	asks := p.turn(toold.NewTurnID(), "r2", "", use("t1", "asks", object{}))
	open := sure(asks.Run(p.ctx, toold.RunOptions{}))
	placeholder := texts(sure(asks.Get(p.ctx, toold.GetOptions{Placeholders: true})).Messages)[0]
	p.tell(object{"step": "open", "messages": len(open.Messages), "open": len(open.Open), "placeholder": strings.HasPrefix(placeholder[1], "[toold placeholder]")})
	for call, err := range p.client.Inbox(p.ctx, &tooldv1.ListCallsRequest{RunId: "r2"}) {
		call = sure(call, err)
		p.tell(object{"step": "inbox", "found": call.GetCallId() == open.Open[0]})
		sure(kindsOf(p.client.Resume(p.ctx, call, &tooldv1.Decision{Result: `"red"`})))
		break
	}
	p.tell(object{"step": "late", "texts": texts(sure(asks.Get(p.ctx, toold.GetOptions{Wait: time.Minute})).Messages)})
	var seen []*tooldv1.CallEvent
	r := sure(p.turn(toold.NewTurnID(), "", "", use("t1", "asks", object{})).Run(p.ctx, toold.RunOptions{WaitForDecision: true, OnEvent: func(e *tooldv1.CallEvent) {
		if seen = append(seen, e); e.GetSuspended() != nil {
			p.tell(object{"step": "waiting", "call_id": e.GetCallId()})
		}
	}}))
	kinds := sure(kindsOf(func(yield func(*tooldv1.CallEvent, error) bool) {
		for _, e := range seen {
			if !yield(e, nil) {
				return
			}
		}
	}, nil))
	p.tell(object{"step": "resumed", "events": kinds, "texts": texts(r.Messages)})
}

func (p *agentPlayer) cancels() {
	asks := p.turn(toold.NewTurnID(), "", "", use("t1", "asks", object{}))
	sure(asks.Run(p.ctx, toold.RunOptions{}))
	sure(0, asks.Cancel(p.ctx, "no"))
	last := sure(asks.Get(p.ctx, toold.GetOptions{Wait: time.Minute}))
	p.tell(object{"step": "cancelled", "open": len(last.Open), "answers": len(texts(last.Messages))})
}
