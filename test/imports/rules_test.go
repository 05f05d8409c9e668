package imports_test

import (
	"slices"
	"strings"
)

const module = "github.com/toold-dev/toold/"

// A row says what the packages of a folder may import. The paths in the field ours are relative to the module. A path that ends with /...
// means the folder and everything below it. Packages to which the same row applies may always import other packages of their own tree.
type row struct {
	folder string
	ours   []string
	// onlyStd allows only two things: the standard library and the modules in the field theirs. Without onlyStd, a package may import any
	// module.
	onlyStd bool
	theirs  []string
	// proto allows gRPC, protobuf and our generated types.
	proto bool
	// starts allows starting processes.
	starts bool
}

const anything = "..."

// rows returns the table of imports. If several rows match a package, the row with the longest folder applies.
func rows() []row {
	return []row{
		{folder: "tool", onlyStd: true},
		{folder: "tool/typed", ours: []string{"tool"}, onlyStd: true, theirs: []string{"github.com/google/jsonschema-go"}},
		{folder: "tool/tooltest", ours: []string{"tool", "call"}, onlyStd: true}, // The import of call is needed because tooltest checks and applies document commands with functions of call.
		{folder: "call", ours: []string{"tool"}, onlyStd: true},
		{folder: "metric", onlyStd: true},
		{folder: "setting", ours: []string{"tool"}, onlyStd: true},
		{folder: "hook", ours: []string{"call", "tool"}, onlyStd: true},
		{folder: "hook/external", ours: []string{"hook", "call", "tool", "metric"}},
		{folder: "registry", ours: []string{"call", "registry/rank", "tool"}},
		{folder: "registry/rank", ours: []string{"tool"}, onlyStd: true},
		{folder: "registry/export", ours: []string{"call", "tool"}, onlyStd: true},
		{folder: "store/...", ours: []string{"store", "call", "tool", "metric"}},
		{folder: "store/postgres/pgtest", starts: true}, // starts a server for tests
		{folder: "lifecycle/...", ours: []string{"call", "hook", "setting", "store", "tool", "metric"}},
		{folder: "lifecycle/batch", ours: []string{"call", "lifecycle/drain", "lifecycle/refusal", "store", "tool"}},
		{folder: "lifecycle/calllog", ours: []string{"call", "hook", "store", "tool"}},
		{folder: "lifecycle/catalog", ours: []string{"call", "hook", "lifecycle/decision", "tool"}},
		{folder: "lifecycle/custody", ours: []string{"call", "store"}},
		{folder: "lifecycle/decision", ours: []string{"call", "lifecycle/gating", "lifecycle/view", "tool"}},
		{folder: "lifecycle/watch", ours: []string{"call", "lifecycle/calllog", "lifecycle/drain", "lifecycle/refusal", "lifecycle/view", "store", "tool"}},
		{folder: "lifecycle/documents", ours: []string{"call", "lifecycle/view", "setting", "store", "tool"}},
		{folder: "lifecycle/drain", ours: []string{}},
		{folder: "lifecycle/expiry", ours: []string{"call"}},
		{folder: "lifecycle/flush", ours: []string{}},
		{folder: "lifecycle/gating", ours: []string{"call", "hook", "tool"}},
		{folder: "lifecycle/hooks", ours: []string{"call", "hook", "lifecycle/outcome", "tool"}},
		{folder: "lifecycle/input", ours: []string{"call", "tool"}},
		{folder: "lifecycle/limit", ours: []string{"call", "store", "tool"}},
		{folder: "lifecycle/meter", ours: []string{"call", "metric", "tool"}},
		{folder: "lifecycle/outbox", ours: []string{"call", "hook", "lifecycle/refusal", "store", "tool", "metric"}},
		{folder: "lifecycle/outcome", ours: []string{"call", "tool"}},
		{folder: "lifecycle/policy", ours: []string{"call", "lifecycle/view", "store", "tool"}},
		{folder: "lifecycle/purge", ours: []string{"call", "hook", "store", "tool"}},
		{folder: "lifecycle/refusal", ours: []string{"call", "store"}},
		{folder: "lifecycle/requests", ours: []string{"call", "tool"}},
		{folder: "lifecycle/trace", ours: []string{"call"}},
		{folder: "lifecycle/turns", ours: []string{}},
		{folder: "lifecycle/view", ours: []string{"call", "lifecycle/calllog", "lifecycle/refusal", "store", "tool"}},
		{folder: "plugins/*/...", ours: []string{"hook", "hook/external", "call", "setting", "tool"}},
		{folder: "plugins/remote/...", ours: []string{"hook", "hook/external", "call", "setting", "tool", "proto/...", "translate"}, proto: true},
		{folder: "tools/*/...", ours: []string{"setting", "tool", "tool/typed", "sandbox", "sandbox/address"}},
		{folder: "tools/worker/link", ours: []string{"tool"}, onlyStd: true},
		{folder: "secret", ours: []string{"sandbox", "tool"}, onlyStd: true},
		{folder: "sandbox/...", onlyStd: true, theirs: []string{"golang.org/x/sys", "golang.org/x/net/bpf"}, starts: true},
		{folder: "sandbox/isolation", onlyStd: true},
		{folder: "sandbox/address", onlyStd: true, theirs: []string{"golang.org/x/net/idna"}},
		{folder: "sandbox/proxy", ours: []string{"sandbox", "sandbox/address"}, onlyStd: true},
		{folder: "proto/...", proto: true},
		{folder: "turn", ours: []string{"call", "tool"}, onlyStd: true},
		{folder: "translate", ours: []string{"proto/...", "call", "hook", "tool"}, proto: true},
		{folder: "server/...", ours: []string{"proto/...", "translate", "turn", "call", "tool"}, proto: true},
		{folder: "server/service", ours: []string{"proto/...", "translate", "turn", "server/access", "server/turns", "call", "hook", "registry/export", "sandbox/isolation", "secret", "tool", "tools/worker/link"}, proto: true},
		{folder: "server/grpc", ours: []string{"proto/...", "server/access", "server/service"}, proto: true},
		{folder: "server/http/...", ours: []string{"proto/...", "translate", "call", "server/access", "server/http/...", "server/service"}, proto: true},
		{folder: "server/http/jsonform", ours: []string{"proto/...", "call"}, proto: true},
		{folder: "server/http/sse", ours: []string{"proto/..."}, proto: true},
		{folder: "server/http/follow", ours: []string{"proto/..."}, proto: true},
		{folder: "server/http/uistream", ours: []string{"proto/...", "server/http/follow"}, proto: true},
		{folder: "server/mcp/...", ours: []string{"proto/...", "translate", "registry/export", "server/access", "server/service", "tool"}, proto: true},
		{folder: "server/access/oidc", ours: []string{"call", "tool"}},
		{folder: "server/access", ours: []string{"proto/...", "call", "tool"}, proto: true},
		{folder: "web/...", onlyStd: true},
		{folder: "sdk/...", ours: []string{"proto/..."}, proto: true},
		{folder: "sdk/go/...", ours: []string{"proto/...", "sdk/go/internal/..."}, proto: true},
		{folder: "cli", ours: []string{"cli/inbox", "cli/show", "plugins/permission", "proto/...", "sdk/go", "server/mcp", "setting"}, proto: true, starts: true}, // the only process that it starts is the user's editor
		{folder: "cli/inbox", ours: []string{"cli/show", "proto/..."}, proto: true},
		{folder: "cli/show", ours: []string{"plugins/permission", "proto/..."}, proto: true},
		{folder: "daemon", ours: []string{anything}, proto: true, starts: true}, // starts only the daemon that conformance restarts
		{folder: "daemon/config", ours: []string{"cli/show", "hook/external", "lifecycle", "lifecycle/documents", "plugins/...", "sandbox/...", "secret", "setting", "store/postgres", "tool", "tools/..."}},
		{folder: "daemon/status", ours: []string{"sandbox/isolation", "server/access", "server/service", "tool"}},
		{folder: "daemon/trace", ours: []string{"call"}, proto: true}, // The row allows proto because OpenTelemetry's exporter uses it.
		{folder: "daemon/wire", ours: []string{"call", "hook", "lifecycle/...", "plugins/...", "registry/...", "server/access", "server/service", "store", "tool", "tools/..."}},
		{folder: "cmd/toold", ours: []string{"daemon", "sandbox"}},
		{folder: "cmd/toold-sandbox", ours: []string{"sandbox/helper"}}, // must stay small, because it starts with each isolated process
		{folder: "conformance/...", ours: []string{"proto/..."}, proto: true},

		// The folders below are not linked into the daemon.
		{folder: "examples/...", ours: []string{"tool", "tool/typed", "call", "hook"}},
		{folder: "examples/hooks/...", ours: []string{"proto/..."}, proto: true},
		{folder: "examples/client/...", ours: []string{"proto/..."}, proto: true},
		{folder: "test/model/...", onlyStd: true},
		{folder: "test/release", onlyStd: true, starts: true},
		{folder: "test/console", onlyStd: true, starts: true},
		{folder: "test/demo/...", ours: []string{"proto/...", "test/model"}, proto: true, starts: true},
		{folder: "test/bench/...", ours: []string{anything}, proto: true, starts: true},
		{folder: "test/mcp", ours: []string{"proto/...", "sdk/go/worker"}, proto: true, starts: true},
		{folder: "test/crash/...", ours: []string{anything}, proto: true, starts: true},
		{folder: "build/...", onlyStd: true, starts: true},
		{folder: "test/imports", onlyStd: true},
	}
}

// A pkg is what "go list" reports for one package, without its tests. Tests may import anything.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
}

// violations returns one sentence for each rule that p breaks.
func violations(p pkg) []string {
	path := strings.TrimPrefix(p.ImportPath, module)
	r, ok := rowOf(path)
	if !ok {
		return []string{path + " stands in no row of the table: say in test/imports/rules_test.go what it may import"}
	}
	var bad []string
	for _, segment := range strings.Split(path, "/") {
		if slices.Contains([]string{"util", "utils", "common", "helpers", "models", "misc"}, segment) {
			bad = append(bad, path+" has a name that says nothing; put the code beside its user")
		}
	}
	for _, imported := range p.Imports {
		if why := refuse(r, path, imported); why != "" {
			bad = append(bad, path+" imports "+strings.TrimPrefix(imported, module)+": "+why)
		}
	}
	return bad
}

// refuse returns why a package at path, under the rules of r, may not import imported. It returns "" when the import is allowed.
func refuse(r row, path, imported string) string {
	switch {
	case imported == "C":
		return "toold is built without cgo"
	case imported == "os/exec" && !r.starts:
		return "processes start in sandbox alone"
	case strings.HasSuffix(imported, "jsonschema/v5/httploader"):
		return "it would let a schema read from the network"
	case within(imported, "google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto") && !r.proto:
		return "proto types and gRPC stop in server"
	}
	if ours, ok := strings.CutPrefix(imported, module); ok {
		if sameTree(r, path, ours) || allows(r.ours, ours) {
			return ""
		}
		return "not among the imports of its row"
	}
	if r.onlyStd && !standard(imported) && !within(imported, r.theirs...) {
		return "only the standard library is allowed here"
	}
	return ""
}

func rowOf(path string) (row, bool) {
	var found row
	for _, r := range rows() {
		if _, ok := match(r.folder, path); ok && len(r.folder) > len(found.folder) {
			found = r
		}
	}
	return found, found.folder != ""
}

// match reports whether path is in folder. It also returns the part of path that matches, which for plugins/*/... is the plugin's folder.
func match(folder, path string) (string, bool) {
	prefix, deep := strings.CutSuffix(folder, "/...")
	want, have := strings.Split(prefix, "/"), strings.Split(path, "/")
	if len(have) < len(want) || !deep && len(have) > len(want) {
		return "", false
	}
	for i, segment := range want {
		if segment != "*" && segment != have[i] {
			return "", false
		}
	}
	return strings.Join(have[:len(want)], "/"), true
}

// sameTree allows store/sqlite to import store/sqlite/schema, but not plugins/log to import plugins/redact.
func sameTree(r row, path, imported string) bool {
	own, _ := match(r.folder, path)
	other, ok := match(r.folder, imported)
	return ok && own == other
}

func allows(allowed []string, path string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		if a == anything {
			return true
		}
		_, ok := match(a, path)
		return ok
	})
}

// within reports whether path is one of the modules or a package in them.
func within(path string, modules ...string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
}

// standard uses the rule of the go command: the first path element of a module contains a dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
