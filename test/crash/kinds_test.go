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

// A kind is a type of call in the workload.
type kind struct {
	name   string
	tool   string
	caller string
	weight int
	most   int  // the largest number of calls of this kind in a test run; 0 means no limit
	once   bool // the tool may run at most once
	counts string
	thread bool // the call belongs to a thread, and stores what it read as a document
	// arguments returns the arguments of a call. edited returns the arguments with which a decision may replace them; a nil edited means
	// that no decision does.
	arguments, edited func(id string) any
	answer            any // the result that a decision carries; nil means none
	before            string
}

// The folders of the workspace in which tools leave traces: one file per call, one line per execution.
const (
	counts = "counts"
	edits  = "edits"
	writes = "writes"
	texts  = "texts"
)

// The words that an execution may write. The word shows which arguments the execution had.
const (
	original = "original"
	edited   = "edited"
)

type object = map[string]any

// trace returns a command that appends a line to the call's file. It must be the first action of the tool's command.
func trace(word, id string) string { return "echo " + word + " >> " + counts + "/" + id }

// chatter returns a command whose output is predictable: the position in the stream determines each byte.
func chatter(id string, lines int, pause string) string {
	return fmt.Sprintf(`for i in $(seq 1 %d); do echo "%s line $i"; %s done`, lines, id, pause)
}

func command(word string, more func(id string) string) func(id string) any {
	return func(id string) any { return object{"command": trace(word, id) + "; " + more(id)} }
}

func short(id string) string { return chatter(id, 3, "") }

// long returns a command that prints for half a second and starts a process in a new session of the kernel (setsid).
func long(id string) string {
	return "(setsid sleep 600 >/dev/null 2>&1 &); " + chatter(id, 40, "sleep 0.01;")
}

// asksFirst is a command tool whose program asks a question before it does its work.
const asksFirst = "ask_first"

// endlessName is the kind of the calls that do not end by themselves.
const endlessName = "endless"

// endless returns a command that runs until it is killed.
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
		// After a crash the daemon reads the file to find out whether the attempt changed it. If the file did not change, the daemon starts
		// another attempt. The traces therefore count the changes, not the attempts.
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

// An item is one call of the workload, with its request and everything that the test knows of the call.
type item struct {
	*ledger.Call
	kind  *kind
	spec  *tooldv1.CallSpec
	born  int         // number of the life in which it was made
	sent  atomic.Bool // it was requested at least once
	fixed atomic.Bool // the call is settled, and was checked in a later life
	tries atomic.Int64
	group *group // the batch that contains it, or nil
}

// newItem makes a call that is not requested yet.
func newItem(led *ledger.Ledger, k *kind, id string, born int) *item {
	spec := &tooldv1.CallSpec{Tool: k.tool, Arguments: jsonText(k.arguments(id)), CallId: id, Run: &tooldv1.Run{RunId: "run-" + k.name}}
	if k.thread {
		spec.Run.ThreadId = "thread-" + id
	}
	switch (len(k.name) + born) % 4 { // The linger policy is never, zero, or the configured default.
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
		panic(err) // This cannot happen with the values of these tests.
	}
	return string(b)
}

// prepare creates the files that the call's tool needs.
func (h *home) prepare(it *item) error {
	if it.kind.before == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(h.workspace, it.kind.counts, it.ID), []byte(it.kind.before), 0o600)
}

// traces returns one line per execution of the call's tool, read from the workspace.
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

// pick returns a random kind, by weight.
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
