package toold_test

import (
	"context"
	"encoding/json"
	"log"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
)

// clock is a tool that the agent runs itself.
func clock(call *tooldv1.NotHandled) json.RawMessage {
	answer, err := json.Marshal(map[string]string{"role": "tool", "tool_call_id": call.GetId(), "content": "It is noon."})
	if err != nil {
		log.Fatal(err)
	}
	return answer
}

// The agent runs one tool itself, in addition to the tools of toold.
func ExampleTurnResult_Merge() {
	run := func(ctx context.Context, client *toold.Client, response json.RawMessage) ([]json.RawMessage, error) {
		toolset, err := client.Toolset(ctx, toold.OpenAI, toold.ToolsetConfig{OwnTools: []string{"clock"}})
		if err != nil {
			return nil, err
		}
		turn := toolset.Turn(&tooldv1.TurnSpec{TurnId: toold.NewTurnID(), Message: string(response)})
		result, err := turn.Run(ctx, toold.RunOptions{WaitForDecision: true})
		if err != nil {
			return nil, err
		}
		var own []json.RawMessage
		for _, call := range result.NotHandled {
			own = append(own, clock(call))
		}
		return result.Merge(own)
	}
	_ = run
}
