package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toold-dev/toold/sdk/go/worker"
)

// A form is the schema of an answer: an object with these fields, all required.
func form(fields ...any) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := 0; i < len(fields); i += 2 {
		properties[fields[i].(string)] = fields[i+1]
		required = append(required, fields[i].(string))
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

func typed(name string) map[string]any { return map[string]any{"type": name} }

// An answer is the answer to several questions: one object for each question.
type answer map[string]map[string]any

// addQuestions adds the tools that ask. The answer to several questions is an object with a form for each question. MCP clients get each form
// as an input request with the name of the question.
func addQuestions(w *worker.Worker) {
	name := form("name", typed("string"))
	ok := form("ok", typed("boolean"))
	ask(w, change("test_input_required_result_elicitation", "Asks for a name."), "What is your name?", form("user_name", name), func(a answer) string {
		return fmt.Sprintf("Hello, %v!", a["user_name"]["name"])
	})
	ask(w, change("test_input_required_result_request_state", "Asks for a confirmation."), "Please confirm", form("confirm", ok), func(answer) string { return "state-ok" })
	ask(w, change("test_input_required_result_tampered_state", "Asks for a confirmation."), "Please confirm", form("confirm", ok), func(answer) string { return "confirmed" })
	ask(w, change("test_input_required_result_capabilities", "Asks for a confirmation."), "Please confirm", form("confirm", ok), func(answer) string { return "confirmed" })
	addRounds(w, name)

	account := form("username", typed("string"), "email", typed("string"))
	type message struct {
		Message string `json:"message"`
	}
	worker.Add(w, change("test_elicitation", "Asks for an account."), func(_ context.Context, c *worker.Call, in message) (string, error) {
		var a json.RawMessage
		if resumed, err := c.Resumed(&a); !resumed || err != nil {
			return "", orAsk(err, in.Message, account)
		}
		return "User response: " + string(a), nil
	})
	flat(w, "test_elicitation_sep1034_defaults", "Please check the values.", defaultsForm)
	flat(w, "test_elicitation_sep1330_enums", "Please choose.", choicesForm)
}

const defaultsForm = `{"type":"object","properties":{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},` +
	`"score":{"type":"number","default":95.5},"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},` +
	`"verified":{"type":"boolean","default":true}},"required":[]}`

const choicesForm = `{"type":"object","properties":{"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},` +
	`"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First"},{"const":"value2","title":"Second"}]},` +
	`"legacyEnum":{"type":"string","enum":["opt1","opt2"],"enumNames":["One","Two"]},` +
	`"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},` +
	`"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First"},{"const":"value2","title":"Second"}]}}},"required":[]}`

// flat adds a tool that asks with one form.
func flat(w *worker.Worker, id, question, schema string) {
	worker.Add(w, change(id, "Asks with a form."), func(_ context.Context, c *worker.Call, _ none) (string, error) {
		var a json.RawMessage
		if resumed, err := c.Resumed(&a); !resumed || err != nil {
			return "", orAsk(err, question, json.RawMessage(schema))
		}
		return string(a), nil
	})
}

func orAsk(err error, question string, schema any) error {
	if err != nil {
		return err
	}
	return worker.Ask(question, schema)
}

// ask adds a tool that asks once and then returns a text.
func ask(w *worker.Worker, t worker.Tool, question string, schema map[string]any, result func(answer) string) {
	worker.Add(w, t, func(_ context.Context, c *worker.Call, _ map[string]any) (string, error) {
		var a answer
		if resumed, err := c.Resumed(&a); !resumed || err != nil {
			return "", orAsk(err, question, schema)
		}
		return result(a), nil
	})
}

// addRounds adds tools that ask twice, and that ask before long work.
func addRounds(w *worker.Worker, name map[string]any) {
	worker.Add(w, change("test_input_required_result_multi_round", "Asks two questions, one after the other."), func(_ context.Context, c *worker.Call, _ none) (string, error) {
		var a answer
		resumed, err := c.Resumed(&a)
		switch {
		case !resumed || err != nil:
			return "", orAsk(err, "Step 1: What is your name?", form("step1", name))
		case c.GetResume().GetRound() == 1:
			return "", worker.Ask("Step 2: What is your favorite color?", form("step2", form("color", typed("string"))))
		}
		return fmt.Sprintf("You like %v.", a["step2"]["color"]), nil
	})
	worker.Add(w, change("test_tool_with_task", "Asks for a name, then works for some seconds."), func(ctx context.Context, c *worker.Call, _ none) (string, error) {
		var a answer
		if resumed, err := c.Resumed(&a); !resumed || err != nil {
			return "", orAsk(err, "What is your name?", form("user_name", name))
		}
		return fmt.Sprintf("Hello, %v!", a["user_name"]["name"]), sleep(ctx, 4*time.Second)
	})
}

// addTasks adds the tools whose calls are tasks.
func addTasks(w *worker.Worker) {
	type person struct {
		Name string `json:"name"`
	}
	worker.Add(w, read("greet", "Greets at once."), func(_ context.Context, _ *worker.Call, in person) (string, error) {
		return "Hello, " + in.Name + "!", nil
	})
	type work struct {
		Seconds float64 `json:"seconds"`
		Label   string  `json:"label,omitempty"`
	}
	worker.Add(w, asTask(read("slow_compute", "Computes for some seconds."), "always"), func(ctx context.Context, _ *worker.Call, in work) (string, error) {
		return "Computed " + in.Label + ".", sleep(ctx, time.Duration(in.Seconds*float64(time.Second)))
	})
	worker.Add(w, asTask(change("failing_job", "Fails after a second."), "required"), func(ctx context.Context, _ *worker.Call, _ none) (string, error) {
		if err := sleep(ctx, time.Second); err != nil {
			return "", err
		}
		return "", worker.Fail("JOB_FAILED", "The job failed.")
	})
	worker.Add(w, asTask(change("protocol_error_job", "Breaks."), "always"), func(context.Context, *worker.Call, none) (string, error) { panic("on purpose") })
	yes := form("confirm", typed("boolean"))
	ask(w, asTask(change("confirm_delete", "Asks before it deletes."), "always"), "Delete the file?", form("confirm_delete", yes), func(answer) string { return "Deleted." })
	either := map[string]any{"type": "object", "properties": map[string]any{"name": typed("string"), "confirm": typed("boolean")}}
	ask(w, asTask(change("multi_input", "Asks two questions at once."), "always"), "Two questions.", form("first", either, "second", either), func(a answer) string {
		return fmt.Sprintf("%v and %v", a["first"]["name"], a["second"]["name"])
	})
}
