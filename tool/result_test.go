package tool_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool"
)

func TestResultConstructors(t *testing.T) {
	tests := []struct {
		name                    string
		result                  *tool.Result
		success, pending, fails bool
		json, text              string
	}{
		{"success", tool.Success(map[string]int{"n": 1}), true, false, false, `{"n":1}`, `{"n":1}`},
		{"success of nothing", tool.Success(nil), true, false, false, `null`, `null`},
		{"success with message", tool.SuccessMessage([]int{1}, "%d item", 1), true, false, false, `[1]`, "1 item"},
		// The model reads the plain text; programs read the data, which is JSON.
		{"text", tool.Text("say \"hi\"\n"), true, false, false, `"say \"hi\"\n"`, "say \"hi\"\n"},
		{"empty text", tool.Text(""), true, false, false, `""`, `""`},
		{"fail", tool.Fail("no file %q", "a"), false, false, true, `null`, `no file "a"`},
		{"suspended", tool.Suspended("May I?"), false, true, false, `null`, "May I?"},
		{"suspended with a ticket", tool.SuspendedWith(tool.Ticket{Action: "auth", Message: "Sign in"}), false, true, false, `null`, "Sign in"},
		{"nil", nil, false, false, false, `null`, ""},
		// A result without a status must not count as a success.
		{"zero", &tool.Result{}, false, false, false, `null`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.result
			if r.IsSuccess() != tt.success || r.IsPending() != tt.pending || r.IsError() != tt.fails {
				t.Errorf("success, pending, error = %t, %t, %t, want %t, %t, %t",
					r.IsSuccess(), r.IsPending(), r.IsError(), tt.success, tt.pending, tt.fails)
			}
			if got := r.JSON(); got != tt.json {
				t.Errorf("JSON() = %s, want %s", got, tt.json)
			}
			if got := r.ModelText(); got != tt.text {
				t.Errorf("ModelText() = %q, want %q", got, tt.text)
			}
		})
	}
}

func TestFailCodeKeepsTheToolsCodeAsReason(t *testing.T) {
	e := tool.FailCode("NO_MATCH", "no match for %s", "x").Error
	if e.Code != tool.ExecutionFailed || e.Reason != "NO_MATCH" || e.Message != "no match for x" || e.Aborted {
		t.Errorf("error = %+v", *e)
	}
	if e := tool.Fail("x").Error; e.Reason != "" {
		t.Errorf("Fail has the reason %q, want none", e.Reason)
	}
}

func TestSuspendedTickets(t *testing.T) {
	if r := tool.Suspended("May I?"); r.Suspension != nil {
		t.Errorf("Suspended has the ticket %+v; nil asks for the default one", *r.Suspension)
	}
	ticket := tool.Ticket{Action: "auth", Message: "Sign in", ExpiresIn: time.Hour}
	r := tool.SuspendedWith(ticket)
	if got := r.Suspension; got == nil || got.Action != "auth" || got.ExpiresIn != time.Hour {
		t.Errorf("ticket = %+v, want %+v", got, ticket)
	}
	r.Suspension.Action = "other"
	if ticket.Action != "auth" {
		t.Error("the result shares the author's ticket")
	}
}

func TestWithCollectsCommands(t *testing.T) {
	k := tool.Key[int]{Scope: tool.RunScope, Name: "n"}
	r := tool.Text("done").With(k.Set(1)).With(k.Delete(), k.Set(2))
	if len(r.Documents) != 3 || r.Documents[1].Op != tool.OpDelete || r.Documents[2].Value != "2" {
		t.Errorf("documents = %+v", r.Documents)
	}
}

func TestModelTextOfErrors(t *testing.T) {
	failed := func(e tool.Error) *tool.Result {
		return &tool.Result{Status: tool.StatusError, Data: `{"secret":1}`, Message: "message", Error: &e}
	}
	tests := []struct {
		name   string
		result *tool.Result
		want   string
	}{
		// The error replaces message and data, so that a failure never reads like a success.
		{"message", failed(tool.Error{Code: tool.Denied, Message: "not allowed"}), "not allowed"},
		{"no message", failed(tool.Error{Code: tool.ResourceExhausted}), "The call failed: resource exhausted"},
		{"violations", failed(tool.Error{
			Code: tool.InvalidArguments, Message: "bad arguments",
			Violations: []tool.Violation{{Field: "items[2].name", Description: "is required"}, {Description: "too many members"}},
		}), "bad arguments\n- items[2].name: is required\n- too many members"},
		{"status without error", &tool.Result{Status: tool.StatusError, Message: "went wrong"}, "went wrong"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.result.ModelText(); got != tt.want {
				t.Errorf("ModelText() = %q, want %q", got, tt.want)
			}
		})
	}
	text := failed(tool.Error{Message: "failed", DeveloperMessage: "dial 10.0.0.7"}).ModelText()
	if strings.Contains(text, "10.0.0.7") {
		t.Errorf("the model reads what is for the operator: %q", text)
	}
}

func TestSuccessPanicsWithoutJSONForm(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Success(chan) did not panic; a result without data would pass for one")
		}
	}()
	tool.Success(make(chan int))
}
