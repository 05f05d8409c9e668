package turn

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A Provider is the format of a model's response.
type Provider string

// The providers. Each comment says which part of a response is the message of a turn.
const (
	OpenAI          Provider = "openai"           // choices[0].message of Chat Completions
	OpenAIResponses Provider = "openai-responses" // output of the Responses API
	Anthropic       Provider = "anthropic"        // the whole response of the Messages API
	Gemini          Provider = "gemini"           // candidates[0].content of generateContent
	AISDK           Provider = "ai-sdk"           // one assistant ModelMessage of the Vercel AI SDK
)

// Providers returns all providers.
func Providers() []Provider { return []Provider{OpenAI, OpenAIResponses, Anthropic, Gemini, AISDK} }

// MaxCalls is the maximum number of calls in a turn, including those that toold does not run.
const MaxCalls = 256

// MaxText is the maximum size of [Call.Text] in bytes. The rest of a longer text is dropped.
const MaxText = 4 << 10

// maxKind is the maximum length in bytes of the provider's type of a call. Frames repeat the type.
const maxKind = 256

// A Request is a model's response.
type Request struct {
	Provider Provider
	Strict   bool // The tools were exported with strict schemas.
	// StopReason is the provider's reason for the end of the response. When it says that the output was cut, the last call is truncated.
	StopReason string
	Message    []byte   // JSON
	OwnTools   []string // names of tools that the client runs
}

// A Turn is a parsed response. Its JSON form has everything that [Turn.Messages] needs, but not the arguments.
type Turn struct {
	Provider Provider `json:"provider"`
	Strict   bool     `json:"strict,omitempty"`
	// Digest is a SHA-256 in hex over provider, strict, own tools and calls. [Turn.Identity] includes it.
	Digest     string       `json:"digest"`
	Calls      []Call       `json:"calls,omitempty"`
	NotHandled []NotHandled `json:"not_handled,omitempty"`
}

// A Call is a call that toold runs.
type Call struct {
	Index       int    `json:"index"`                   // position among all calls of the turn, from 0
	ModelCallID string `json:"model_call_id,omitempty"` // unchanged; Gemini may send none
	Name        string `json:"name"`                    // unchanged, even if no tool can have this name
	// Arguments are the same bytes as in the message. They may be any text. They are not in the JSON form.
	Arguments string `json:"-"`
	// Text is the text that the model wrote since the previous call that toold runs, without reasoning and at most [MaxText] bytes. It is
	// not in the JSON form.
	Text      string `json:"-"`
	Truncated bool   `json:"truncated,omitempty"` // The output was cut, so the arguments must not be used, even if they parse.
	// Caller is the JSON of the member "caller" of a call in OpenAI's Responses API. The answer to the call repeats it.
	Caller string `json:"caller,omitempty"`
}

// Tool returns the id of the tool to call, which is the name. If the name is empty or too long for an id, Tool returns a short text that is
// not a valid id, so that the call ends with NOT_FOUND.
func (c *Call) Tool() string {
	if c.Name != "" && len(c.Name) <= 64 {
		return c.Name
	}
	sum := sha256.Sum256([]byte(c.Name))
	return "?" + hex.EncodeToString(sum[:4])
}

// NotHandled is a call that the client must answer: a call of one of the client's own tools, or a kind of call that toold does not run.
type NotHandled struct {
	Index int    `json:"index"`
	ID    string `json:"id,omitempty"`
	Type  string `json:"type"` // the provider's type of the call
}

// A format has the rules of one provider.
type format interface {
	parse(p *parser, message node) error
	// messages returns the provider's messages for the outcomes of all calls.
	messages(outcomes []outcome) [][]byte
	// late returns one user message with a text and media.
	late(text string, media []medium) []byte
	// takes reports whether the provider accepts media of this type in the result of a tool.
	takes(mime string) bool
}

func formatOf(p Provider) (format, error) {
	switch p {
	case OpenAI:
		return openAI{}, nil
	case OpenAIResponses:
		return responses{}, nil
	case Anthropic:
		return anthropic{}, nil
	case Gemini:
		return gemini{}, nil
	case AISDK:
		return aiSDK{}, nil
	}
	return nil, call.InvalidField("provider", "is %q; want one of %q", p, Providers())
}

// Parse parses a response strictly. The error is a [*call.Refusal].
func Parse(r Request) (*Turn, error) {
	f, err := formatOf(r.Provider)
	if err != nil {
		return nil, err
	}
	root, err := parseMessage(string(r.Message))
	if err != nil {
		return nil, err
	}
	p := newParser(r)
	if err := f.parse(p, root); err != nil {
		return nil, err
	}
	if cut(r.StopReason) || cut(p.stopReason) {
		p.truncateLast()
	}
	p.turn.Digest = hexSum(p.digest)
	return p.turn, nil
}

// A parser collects the calls of a response.
type parser struct {
	turn       *Turn
	own        []string
	ids        map[string]bool
	idBytes    int // total size of ids
	digest     []byte
	stopReason string // stop reason that the message itself contains
	text       []byte // text that the model wrote since the last call that toold runs
}

const callsDomain = "toold.turn.calls.v1"

func newParser(r Request) *parser {
	own := slices.Compact(slices.Sorted(slices.Values(r.OwnTools)))
	p := &parser{turn: &Turn{Provider: r.Provider, Strict: r.Strict}, own: own, ids: map[string]bool{}}
	strict := "loose"
	if r.Strict {
		strict = "strict"
	}
	p.digest = append(p.digest, callsDomain...)
	p.hash(string(r.Provider), strict)
	p.hash(own...)
	return p
}

// hash adds a list of texts to the digest. Two different lists never add the same bytes.
func (p *parser) hash(texts ...string) {
	p.digest = append(p.digest, '[')
	for _, s := range texts {
		p.digest = append(tool.AppendQuoted(p.digest, s), ',')
	}
	p.digest = append(p.digest, ']')
}

// found is a call in a response, as the provider sent it.
type found struct {
	at        node
	kind      string // the provider's type
	id, name  string
	arguments string
	object    bool // The provider sends arguments as a JSON value, not as text.
	foreign   bool // toold does not run calls of this kind
	truncated bool
	caller    string
}

// add adds a call that toold or the client runs.
func (p *parser) add(f *found) error {
	index := len(p.turn.Calls) + len(p.turn.NotHandled)
	switch {
	case index == MaxCalls:
		return f.at.refuse("is one call too many: a turn has at most %d calls", MaxCalls)
	case p.ids[f.id]:
		return f.at.refuse("has the id %s a second time; the ids of a turn must be different", quoted(f.id))
	case f.id == "" && p.turn.Provider != Gemini:
		return f.at.refuse("has no id")
	case len(f.kind) > maxKind:
		return f.at.refuse("has a type of %d bytes; at most %d are accepted", len(f.kind), maxKind)
	case p.idBytes+len(f.id) > call.MaxModelIDs:
		return f.at.refuse("has an id of %d bytes; the ids of a turn may have at most %d bytes together", len(f.id), call.MaxModelIDs)
	}
	p.ids[f.id] = f.id != ""
	p.idBytes += len(f.id)
	arguments := f.arguments
	if parsed := call.Parse(arguments); f.object && parsed.Err == nil {
		arguments = parsed.Canonical
	}
	handled := "toold"
	if f.foreign {
		handled = "foreign"
	}
	p.hash(f.kind, f.name, arguments, f.id, handled, f.caller)
	if f.foreign || slices.Contains(p.own, f.name) {
		p.turn.NotHandled = append(p.turn.NotHandled, NotHandled{Index: index, ID: f.id, Type: f.kind})
		return nil
	}
	p.turn.Calls = append(p.turn.Calls, Call{
		Index: index, ModelCallID: f.id, Name: f.name, Arguments: f.arguments, Text: strings.ToValidUTF8(string(p.text), ""), Truncated: f.truncated, Caller: f.caller,
	})
	p.text = nil
	return nil
}

// addText adds a text of the model. The next call that toold runs gets this text. An absent text adds nothing.
func (p *parser) addText(text node) {
	s := strings.TrimSpace(text.str())
	if s != "" && len(p.text) > 0 {
		s = "\n\n" + s
	}
	p.text = append(p.text, s[:min(len(s), MaxText-len(p.text))]...)
}

// truncateLast marks the last call of the response as truncated, unless the client answers it.
func (p *parser) truncateLast() {
	calls, others := p.turn.Calls, p.turn.NotHandled
	if len(calls) == 0 || len(others) > 0 && others[len(others)-1].Index > calls[len(calls)-1].Index {
		return
	}
	calls[len(calls)-1].Truncated = true
}

// cutReasons lists the stop reasons, in lower case, which mean that the output was cut. One list serves all providers, because proxies mix
// the reasons of different providers.
var cutReasons = []string{
	"length", "content_filter", "content-filter", "model_length", "error", "interrupted", // Chat Completions and the AI SDK
	"incomplete", "max_output_tokens", // Responses
	"max_tokens", "model_context_window_exceeded", "refusal", // Anthropic
	"safety", "recitation", "blocklist", "prohibited_content", "spii", "malformed_function_call", "malformed_response", // Gemini
}

// cut reports whether a stop reason means that the output was cut. It ignores case, and also accepts names of enum values such as
// FinishReason.MAX_TOKENS.
func cut(reason string) bool {
	reason = strings.ToLower(strings.TrimSpace(reason))
	return slices.Contains(cutReasons, reason[strings.LastIndexByte(reason, '.')+1:])
}

const identityDomain = "toold.turn.v1"

// Identity returns a digest in hex that identifies a turn. A repeated request for the same turn has the same digest. The digest covers
// provider, strict, own tools, the calls in order, caller, the person that the caller acts for, run, thread and options. It does not cover
// the text, the reasoning and the stop reason of the response. A turn that was decoded from its JSON form has the same identity.
func (t *Turn) Identity(caller, onBehalfOf, run, thread string, o call.BatchOptions) string {
	b := append([]byte(nil), identityDomain...)
	for _, v := range [...]string{t.Digest, caller, onBehalfOf, run, thread, call.BatchDigest(o, nil, nil)} {
		b = tool.AppendQuoted(append(b, ','), v)
	}
	return hexSum(b)
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
