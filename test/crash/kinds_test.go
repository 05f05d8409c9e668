package crash_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/test/crash/ledger"
)

// A kind is a sort of call that the workload makes.
type kind struct {
	name   string
	tool   string
	caller string
	weight int
	most   int  // in a run of the test; 0 is any number
	once   bool // the tool may run once at most
	counts string
	thread bool // read in a thread: what it has read is a document
	// arguments are those of a call, edited those that a decision may put in their place; nil is none.
	arguments, edited func(id string) any
	answer            any // the result that a decision carries; nil is none
	before            string
}

// Where the tools leave their traces in the workspace: a file for each call, in which each execution is a line.
const (
	counts = "counts"
	edits  = "edits"
	writes = "writes"
	texts  = "texts"
)

// What an execution writes: which arguments it had.
const (
	original = "original"
	edited   = "edited"
)

type object = map[string]any

// trace appends a line to the call's file as the very first thing that a command does.
func trace(word, id string) string { return "echo " + word + " >> " + counts + "/" + id }

// chatter is what a command prints: its place in the stream tells each byte.
func chatter(id string, lines int, pause string) string {
	return fmt.Sprintf(`for i in $(seq 1 %d); do echo "%s line $i"; %s done`, lines, id, pause)
}

func command(word string, more func(id string) string) func(id string) any {
	return func(id string) any { return object{"command": trace(word, id) + "; " + more(id)} }
}

func short(id string) string { return chatter(id, 3, "") }

// long streams for half a second, beside a process that left its session.
func long(id string) string {
	return "(setsid sleep 600 >/dev/null 2>&1 &); " + chatter(id, 40, "sleep 0.01;")
}

// asksFirst is a manifest whose program asks a question before it does its work.
const asksFirst = "ask_first"

// endlessName is the kind of calls that do not end by themselves.
const endlessName = "endless"

// endless runs until it is stopped.
func endless(id string) string {
	return "(setsid setsid sleep 600 &) >/dev/null 2>&1; sleep 600 & " + chatter(id, 5, "") + "; wait"
}

func edit(word string) func(id string) any {
	return func(id string) any {
		return object{"path": edits + "/" + id, "old_text": "the end", "new_text": word + "\nthe end"}
	}
}

func write(word string) func(id string) any {
	return func(id string) any { return object{"path": writes + "/" + id, "content": word + "\n"} }
}

func kinds() []*kind {
	return []*kind{
		{name: "command", tool: "bash", caller: auto, weight: 8, once: true, counts: counts, arguments: command(original, short)},
		{name: "long", tool: "bash", caller: auto, weight: 5, once: true, counts: counts, arguments: command(original, long)},
		{name: endlessName, tool: "bash", caller: auto, weight: 4, once: true, counts: counts, arguments: command(original, endless)},
		{name: "gated", tool: "bash", caller: asked, weight: 12, once: true, counts: counts, arguments: command(original, short), edited: command(edited, short)},
		{name: "council", tool: "bash", caller: council, weight: 12, once: true, counts: counts, arguments: command(original, short), edited: command(edited, short)},
		// After a crash the files say what became of an attempt: one that changed nothing is followed by another, and the
		// world counts what they did.
		{name: "edit", tool: "edit", caller: asked, weight: 8, counts: edits, before: "the end\n", arguments: edit(original), edited: edit(edited)},
		{name: "write", tool: "write", caller: asked, weight: 5, counts: writes, arguments: write(original), edited: write(edited)},
		{name: "noop", tool: "bench_write", caller: auto, weight: 8, once: true, arguments: benchArguments},
		{name: "question", tool: "ask_user", caller: asked, weight: 8, answer: "blue",
			arguments: func(id string) any {
				return object{"question": "Which colour for " + id + "?", "options": []string{"red", "blue"}}
			}},
		{name: "manifest", tool: asksFirst, caller: asked, weight: 8, counts: counts, arguments: func(id string) any { return object{"call": id} }},
		{name: "grep", tool: "grep", caller: asked, weight: 8, arguments: func(id string) any { return object{"pattern": "line [0-9]+ of", "path": texts} }},
		{name: "read", tool: "read", caller: asked, weight: 5, thread: true, arguments: func(id string) any { return object{"path": texts + "/a.txt"} }},
		{name: "stream", tool: "bench_progress", caller: asked, weight: 6, arguments: benchArguments},
		{name: "ticks", tool: "bench_ticks", caller: asked, weight: 8, arguments: benchArguments},
		{name: "flood", tool: "bench_log", caller: asked, weight: 1, most: 40, arguments: benchArguments},
	}
}

func benchArguments(id string) any { return object{"path": id, "pattern": "x"} }

// An item is one call of the workload: what was asked for, and what is known of it.
type item struct {
	*ledger.Call
	kind  *kind
	spec  *tooldv1.CallSpec
	born  int         // in which life
	sent  atomic.Bool // it was asked for at least once
	fixed atomic.Bool // settled and checked in a later life
	tries atomic.Int64
	group *group // the batch that it belongs to; nil is none
}

// newItem makes a call that was not asked for yet.
func newItem(led *ledger.Ledger, k *kind, id string, born int) *item {
	spec := &tooldv1.CallSpec{Tool: k.tool, Arguments: jsonText(k.arguments(id)), CallId: id, Run: &tooldv1.Run{RunId: "run-" + k.name}}
	if k.thread {
		spec.Run.ThreadId = "thread-" + id
	}
	switch (len(k.name) + born) % 4 { // what becomes of it when its client leaves; else what is configured
	case 0:
		spec.LingerNever = true
	case 1:
		spec.Linger = duration(0)
	}
	return &item{Call: led.Call(id, k.once), kind: k, spec: spec, born: born}
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the tests' own values
	}
	return string(b)
}

// prepare lays out what the call's tool finds.
func (h *home) prepare(it *item) error {
	if it.kind.before == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(h.workspace, it.kind.counts, it.ID), []byte(it.kind.before), 0o600)
}

// traces returns a line for each execution of the call's tool that the world shows.
func (h *home) traces(it *item) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(h.workspace, it.kind.counts, it.ID))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return strings.Fields(strings.TrimSuffix(string(b), it.kind.before)), nil
}

// pick draws one of the kinds by weight.
func pick(rng *rand.Rand, all []*kind) *kind {
	total := 0
	for _, k := range all {
		total += k.weight
	}
	n := rng.IntN(total)
	for _, k := range all {
		if n -= k.weight; n < 0 {
			return k
		}
	}
	return all[0]
}
