// Command agent does a task with the tools of toold and a model that speaks Chat Completions.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
)

func main() {
	ctx := context.Background()
	client := must(toold.Dial(os.Getenv("TOOLD_ADDRESS"), toold.WithToken(os.Getenv("TOOLD_TOKEN"))))
	toolset := must(client.Toolset(ctx, toold.OpenAI, toold.ToolsetConfig{}))
	history := load()
	if len(history) == 0 {
		history = add(history, line{Message: text("user", os.Args[1])})
	}
	for {
		if history[len(history)-1].TurnID == "" {
			must(toolset.Refresh(ctx))
			history = add(history, ask(toolset, history))
		}
		last := history[len(history)-1]
		turn := toolset.Turn(&tooldv1.TurnSpec{TurnId: last.TurnID, Message: string(last.Message), StopReason: last.StopReason})
		result := must(turn.Run(ctx, toold.RunOptions{OnEvent: show, WaitForDecision: true}))
		if len(result.Messages) == 0 {
			var final struct{ Content string }
			must(0, json.Unmarshal(last.Message, &final))
			fmt.Println(final.Content)
			return
		}
		var answers []line
		for _, m := range result.Messages {
			answers = append(answers, line{Message: m})
		}
		history = add(history, answers...)
	}
}

// show prints what happens in a call.
func show(e *tooldv1.CallEvent) {
	if p := e.GetProgress(); p != nil {
		fmt.Fprintln(os.Stderr, p.GetMessage())
	}
	if s := e.GetSuspended().GetSuspension(); s != nil {
		fmt.Fprintln(os.Stderr, "waits for a person: toold approve", s.GetSuspensionId())
	}
}

// A line contains one message of the history. A line with a turn id contains a response of the model.
type line struct {
	TurnID     string          `json:"turn_id,omitempty"`
	StopReason string          `json:"stop_reason,omitempty"`
	Message    json.RawMessage `json:"message"`
}

// ask returns the model's response to the history, with a new turn id.
func ask(toolset *toold.Toolset, history []line) line {
	var messages []json.RawMessage
	if guidance := toolset.Guidance(); guidance != "" {
		messages = append(messages, text("system", guidance))
	}
	for _, l := range history {
		messages = append(messages, l.Message)
	}
	body := must(json.Marshal(map[string]any{"model": os.Getenv("MODEL_NAME"), "messages": messages, "tools": toolset.Tools()}))
	request := must(http.NewRequest(http.MethodPost, os.Getenv("MODEL_URL")+"/chat/completions", bytes.NewReader(body)))
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + os.Getenv("MODEL_KEY")}}
	response := must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	var answer struct {
		Error   json.RawMessage
		Choices []struct {
			Message      json.RawMessage
			FinishReason string `json:"finish_reason"`
		}
	}
	must(0, json.NewDecoder(response.Body).Decode(&answer))
	if len(answer.Choices) != 1 {
		log.Fatalf("the model answers %s %s", response.Status, answer.Error)
	}
	return line{toold.NewTurnID(), answer.Choices[0].FinishReason, answer.Choices[0].Message}
}

func text(role, content string) json.RawMessage {
	return must(json.Marshal(map[string]string{"role": role, "content": content}))
}

// load returns the history of the file, or none.
func load() (history []line) {
	text, err := os.ReadFile("history.json")
	if !errors.Is(err, fs.ErrNotExist) {
		must(0, json.Unmarshal(must(text, err), &history))
	}
	return history
}

// add appends lines to the history, and replaces its file. A crash leaves the old file or the new one.
func add(history []line, lines ...line) []line {
	history = append(history, lines...)
	file := must(os.OpenFile("history.new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600))
	must(file.Write(must(json.Marshal(history))))
	must(0, file.Sync())
	must(0, os.Rename("history.new", "history.json"))
	must(0, file.Close())
	return history
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
