package turn_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/toold-dev/toold/turn"
)

// fuzz checks that Parse never panics. If Parse accepts a response, the messages must answer each of its calls once, also after a restart.
func fuzz(f *testing.F, p turn.Provider) {
	for _, g := range goldens() {
		for i := range g.calls {
			if g.calls[i].id == "" {
				g.calls[i].id = "id" + number(i)
			}
		}
		f.Add(message(p, g.extra[p], g.calls...), g.stop[p])
	}
	f.Fuzz(func(t *testing.T, message, stop string) {
		parsed, err := turn.Parse(turn.Request{Provider: p, Message: []byte(message), StopReason: stop, OwnTools: []string{"mine"}})
		if err != nil {
			return
		}
		answers := make([]turn.Answer, len(parsed.Calls))
		for i := range answers {
			answers[i] = []turn.Answer{ok("text"), with("done", nil, image(png)), failed("DENIED", "", "no"), waits("approval", "?", "s")}[i%4]
		}
		options := turn.Options{Placeholders: true}
		messages, err := parsed.Messages(answers, options)
		if err != nil {
			t.Fatal(err)
		}
		checkAnswers(t, parsed, messages)
		again, err := reload(t, parsed).Messages(answers, options)
		if err != nil || !slices.EqualFunc(messages, again, bytes.Equal) {
			t.Fatalf("other messages after a restart: %v", err)
		}
	})
}

func FuzzOpenAI(f *testing.F)          { fuzz(f, turn.OpenAI) }
func FuzzOpenAIResponses(f *testing.F) { fuzz(f, turn.OpenAIResponses) }
func FuzzAnthropic(f *testing.F)       { fuzz(f, turn.Anthropic) }
func FuzzGemini(f *testing.F)          { fuzz(f, turn.Gemini) }
func FuzzAISDK(f *testing.F)           { fuzz(f, turn.AISDK) }
