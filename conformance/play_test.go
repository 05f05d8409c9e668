package conformance_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/conformance"
)

// small is a short transcript. Each test changes one part of it.
const small = `Something small.

fresh: call
needs: tool glob
-- free ExecuteTool --
{"spec": {"tool": "glob", "arguments": "{\"pattern\":\"{{call}}\"}", "callId": "{{call}}"}}
-- answer --
event {"accepted":{"tool":"glob"},"callId":"{{call}}","sequence":"1"}
event {"attemptStarted":{"attempt":1},"callId":"{{call}}","sequence":"{{second}}"}
event {"finished":{"status":"CALL_STATUS_SUCCEEDED","result":{"error":null}},"callId":"{{call}}"}
-- stranger GetCall --
{"callId": "{{call}}"}
-- answer --
status NOT_FOUND
ErrorInfo {"reason":"CALL_NOT_FOUND"}
-- free WatchCalls --
{"callId": "{{call}}", "afterSequence": "{{second}}"}
-- answer --
event {"finished":{},"callId":"{{call}}","sequence":"3"}
caught_up {}
`

// TestDifferencesAreSeen plays transcripts whose expectations differ from the answer.
func TestDifferencesAreSeen(t *testing.T) {
	config := start(t).config()
	config.Restart = func(context.Context) error { return nil }
	config.Patience = 5 * time.Second
	tests := []struct{ name, old, new, want string }{
		{"nothing", "", "", ""},
		{"another value", "CALL_STATUS_SUCCEEDED", "CALL_STATUS_FAILED", `finished.status: want "CALL_STATUS_FAILED", got "CALL_STATUS_SUCCEEDED"`},
		{"a value where nothing came", `{"error":null}`, `{"error":{"code":"ERROR_CODE_DENIED"}}`, "result.error: want"},
		{"nothing where a value came", `"attempt":1`, `"attempt":null`, "attemptStarted.attempt: want nothing, got 1"},
		{"a list of another length", `"result":{"error":null}`, `"result":{"artifacts":[{}]}`, "want 1 elements"},
		{"an event too many", "event {\"finished\":{},", "event {\"queued\":{},\"callId\":\"{{call}}\"}\nevent {\"finished\":{},", "missing"},
		{"an event of another kind", `"attemptStarted":{"attempt":1}`, `"queued":{}`, "event.queued: want {}, got nothing"},
		{"two values of one variable", `"tool":"glob"},"callId"`, `"tool":"{{x}}l{{x}}b"},"callId"`, "event.accepted.tool"},
		{"a daemon that was not killed", "-- stranger GetCall", "-- crash --\n-- stranger GetCall", "was not killed"},
		{"an event too few", `event {"accepted":{"tool":"glob"},"callId":"{{call}}","sequence":"1"}` + "\n", "", "unexpected"},
		{"a variable with another value", `"sequence":"3"`, `"sequence":"{{second}}"`, `event.sequence: want "{{second}}"`},
		{"another code", "status NOT_FOUND", "status PERMISSION_DENIED", `got "NOT_FOUND"`},
		{"another reason", "CALL_NOT_FOUND", "GONE", "ErrorInfo.reason"},
		{"a detail that is not there", `ErrorInfo {"reason":"CALL_NOT_FOUND"}`, `RetryInfo {}`, "missing: RetryInfo"},
		{"a status where it ends in order", "caught_up {}\n", "caught_up {}\nstatus NOT_FOUND\n", "want status NOT_FOUND, got end"},
		{"a variable without a value", `"afterSequence": "{{second}}"`, `"afterSequence": "{{third}}"`, "no value for {{third}}"},
		{"a request that is none", `"afterSequence"`, `"afterSequences"`, "unknown field"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr, err := conformance.Parse("small", strings.Replace(small, tt.old, tt.new, 1))
			must(t, err)
			out, err := conformance.Run(t.Context(), config, tr)
			must(t, err)
			switch differs := strings.Join(out.Differs, "\n"); {
			case len(out.Unmet) > 0:
				t.Errorf("needs %q", out.Unmet)
			case tt.want == "" && !out.Passed():
				t.Errorf("differs: %s", differs)
			case !strings.Contains(differs, tt.want):
				t.Errorf("differs: %q, want %q", differs, tt.want)
			}
		})
	}
	t.Run("needs", func(t *testing.T) { needs(t, config) })
}

// needs checks that an unmet requirement of a transcript is reported as a failure.
func needs(t *testing.T, config conformance.Config) {
	config.Restart = nil
	for text, want := range map[string]string{
		strings.Replace(small, "tool glob", "tool no_such_tool", 1):                      "the tool no_such_tool",
		strings.Replace(small, "tool glob", `free glob {"pattern":"x"} SUSPEND`, 1):      "rules that say SUSPEND",
		strings.Replace(small, "tool glob", `approver glob {"pattern":"x"} SUSPEND`, 1):  "a token of approver that may call tools",
		strings.Replace(small, "-- stranger GetCall", "-- nobody GetCall", 1):            "the token of nobody",
		strings.Replace(small, "-- stranger GetCall", "-- crash --\n-- free GetCall", 1): "a command that kills the daemon",
	} {
		tr, err := conformance.Parse("small", text)
		must(t, err)
		out, err := conformance.Run(t.Context(), config, tr)
		must(t, err)
		if out.Passed() || !slices.ContainsFunc(out.Unmet, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("needs %q, want %q", out.Unmet, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "must say what the transcript checks",
		"x\n":                                   "no steps",
		"x\n-- a --\n":                          "want a person and a method",
		"x\n-- answer --\n":                     "an answer without a request",
		"x\n-- a B --\n{}\n":                    "has no expected answer",
		"x\n-- a B --\n-- answer --\n":          "the answer is empty",
		"x\n-- a B wrong --\n":                  "no option",
		"x\n-- read w --\n-- answer --\nend\n":  "no stream",
		"x\n-- a B --\n-- answer --\nevent {\n": "x:4",
		"x\n-- a B until open=c --\n-- answer --\n":                                         "exclude each other",
		"x\n-- crash --\n-- answer --\n":                                                    "has no answer",
		"x\nneeds: something\n-- crash --\n":                                                "needs",
		"x\n-- a B --\n-- answer --\n{} {}\n":                                               "more than one value",
		"x\n-- a B open=c --\n-- answer --\n-- crash --\n-- read c --\n-- answer --\nend\n": "no stream",
		"x\n-- a B open=c --\n-- answer --\n-- leave c --\n-- leave c --\n":                 "no stream",
		"x\n-- a B open=c --\n-- answer --\n-- a B open=c --\n-- answer --\n":               "is already open",
		"x\n-- a B open=c --\n-- answer --\n-- read c --\n-- answer --\n":                   "the answer is empty",
		"x\n-- a B open=c --\n-- answer --\n-- read c until --\n-- answer --\nend\n":        "no option except skip",
		"x\n-- a B open=c --\n-- answer --\n-- read c open=d --\n-- answer --\nend\n":       "no option except skip",
		"x\n-- a B skip=status --\n-- answer --\nend\n":                                     "cannot be skipped",
		"x\n-- crash --\nwords\n":                                                           "only requests have a body",
		"x\n-- a B --\n-- answer --\n-- answer --\n":                                        "an answer without a request",
	} {
		if _, err := conformance.Parse("x", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(small)
	f.Add("x\n-- a B open=c skip=d,e --\n{}\n-- answer --\n-- read c until --\n-- answer --\nstatus OK\n-- leave c --\n")
	f.Fuzz(func(t *testing.T, text string) {
		if tr, err := conformance.Parse("fuzz", text); err == nil && tr.About == "" {
			t.Error("taken without a word on what it guards")
		}
	})
}
