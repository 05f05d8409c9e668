// Command agent does a task with the tools of toold and a model that speaks Chat Completions.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/google/uuid"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
)

// A line is one line of history.jsonl. Lines with a turn id have a response of the model.
type line struct {
	TurnID     string          `json:"turn_id,omitempty"`
	StopReason string          `json:"stop_reason,omitempty"`
	Message    json.RawMessage `json:"message"`
}

func main() {
	client, err := toold.Dial(os.Getenv("TOOLD_ADDRESS"), toold.WithToken(os.Getenv("TOOLD_TOKEN")))
	check(err)
	ctx := context.Background()
	history := load()
	if len(history) == 0 {
		history = add(history, line{Message: encode(map[string]any{"role": "user", "content": os.Args[1]})})
	}
	for {
		last := history[len(history)-1]
		if last.TurnID == "" {
			export, err := client.Tools.ExportTools(ctx, &tooldv1.ExportToolsRequest{Format: tooldv1.ExportFormat_EXPORT_FORMAT_OPENAI})
			check(err)
			last = ask(history, export.GetTools())
			history = add(history, last)
		}
		turn, err := client.Turn(ctx, &tooldv1.ExecuteTurnRequest{WaitForDecision: true, Spec: &tooldv1.TurnSpec{
			Provider: tooldv1.TurnProvider_TURN_PROVIDER_OPENAI, TurnId: last.TurnID, Message: string(last.Message), StopReason: last.StopReason,
		}}, show)
		check(err)
		if len(turn.Messages) == 0 {
			var m struct{ Content string }
			check(json.Unmarshal(last.Message, &m))
			fmt.Println(m.Content)
			return
		}
		var answers []line
		for _, m := range turn.Messages {
			answers = append(answers, line{Message: m})
		}
		history = add(history, answers...)
	}
}

// ask sends the history to the model and returns its response with a new turn id.
func ask(history []line, tools string) line {
	var messages []json.RawMessage
	for _, l := range history {
		messages = append(messages, l.Message)
	}
	body := encode(map[string]any{"model": os.Getenv("MODEL_NAME"), "messages": messages, "tools": json.RawMessage(tools)})
	r, err := http.Post(os.Getenv("MODEL_URL")+"/chat/completions", "application/json", bytes.NewReader(body))
	check(err)
	defer r.Body.Close()
	var answer struct {
		Error   json.RawMessage
		Choices []struct {
			Message      json.RawMessage
			FinishReason string `json:"finish_reason"`
		}
	}
	check(json.NewDecoder(r.Body).Decode(&answer))
	if len(answer.Choices) == 0 {
		log.Fatalf("the model refuses: %s", answer.Error)
	}
	return line{uuid.NewString(), answer.Choices[0].FinishReason, answer.Choices[0].Message}
}

func show(e *tooldv1.CallEvent) {
	switch e := e.GetEvent().(type) {
	case *tooldv1.CallEvent_Progress:
		fmt.Fprintln(os.Stderr, e.Progress.GetMessage())
	case *tooldv1.CallEvent_Suspended:
		fmt.Fprintln(os.Stderr, "waits for a person: toold resume", e.Suspended.GetSuspension().GetSuspensionId())
	}
}

func load() (history []line) {
	text, _ := os.ReadFile("history.jsonl")
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		var l line
		check(json.Unmarshal(s.Bytes(), &l))
		history = append(history, l)
	}
	return history
}

// add appends lines to the history and to its file.
func add(history []line, lines ...line) []line {
	f, err := os.OpenFile("history.jsonl", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(err)
	var text []byte
	for _, l := range lines {
		text = append(append(text, encode(l)...), '\n')
	}
	_, err = f.Write(text)
	check(err)
	check(f.Close())
	return append(history, lines...)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	check(err)
	return b
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
