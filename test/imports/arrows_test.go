package imports_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestArrows(t *testing.T) {
	packages := list(t)
	if len(packages) < 5 {
		t.Fatalf("go list found %d packages; the module has more", len(packages))
	}
	for _, p := range packages {
		for _, v := range violations(p) {
			t.Error(v)
		}
		for _, v := range sourceViolations(t, p) {
			t.Error(v)
		}
	}
}

// TestArrowsAreKept checks that a violation of each kind of rule is detected.
func TestArrowsAreKept(t *testing.T) {
	tests := []struct {
		path    string
		imports string
		want    string // part of the text of the only violation; empty means no violation
	}{
		{"tool", "context", ""},
		{"tool", "go.uber.org/zap", "only the standard library"},
		{"tool", "call", "not among"},
		{"tool/typed", "github.com/google/jsonschema-go/jsonschema", ""},
		{"tool/inner", "context", "no row"},
		{"call", "tool", ""},
		{"call", "tool/typed", "not among"},
		{"hook", "registry", "not among"},
		{"registry", "lifecycle", "not among"},
		{"registry", "github.com/santhosh-tekuri/jsonschema/v5", ""},
		{"registry", "github.com/santhosh-tekuri/jsonschema/v5/httploader", "network"},
		{"store/sqlite", "store", ""},
		{"store/sqlite", "modernc.org/sqlite", ""},
		{"store/sqlite", "lifecycle", "not among"},
		{"lifecycle", "store", ""},
		{"lifecycle", "store/sqlite", "not among"}, // package daemon gives a store to the engine
		{"lifecycle", "registry", "not among"},
		{"lifecycle/limit", "store", ""},
		{"lifecycle/limit", "lifecycle", "not among"},
		{"lifecycle", "tools/files", "not among"},
		{"lifecycle", "google.golang.org/grpc/codes", "stop in server"},
		{"plugins/log", "hook", ""},
		{"plugins/log", "store", "not among"},
		{"plugins/log", "plugins/redact", "not among"},
		{"plugins/log", "plugins/log/line", ""},
		{"plugins/log", "proto/toold/v1", "not among"},
		{"plugins/remote", "proto/toold/v1", ""},
		{"plugins", "hook", "no row"},
		{"tools/shell", "sandbox", ""},
		{"tools/shell", "os/exec", "sandbox alone"},
		{"tools/files", "tools/shell", "not among"},
		{"tools/files", "call", "not among"},
		{"sandbox", "os/exec", ""},
		{"sandbox", "tool", "not among"},
		{"proto/toold/v1", "call", "not among"},
		{"server/grpc", "proto/toold/v1", ""},
		{"server/grpc", "lifecycle", "not among"},
		{"server/grpc", "os/exec", "sandbox alone"},
		{"sdk/go", "proto/toold/v1", ""},
		{"sdk/go", "call", "not among"},
		{"cmd/toold", "daemon", ""},
		{"cmd/toold", "lifecycle", "not among"},
		{"daemon", "lifecycle", ""},
		{"daemon/config", "server/grpc", "not among"},
		{"daemon/config", "daemon", "not among"},
		{"cli", "proto/toold/v1", ""},
		{"cli", "daemon", "not among"},
		{"cli", "sandbox", "not among"},
		{"cmd/other", "context", "no row"},
		{"server/grpc", "C", "cgo"},
		{"somewhere", "context", "no row"},
		{"store/util", "context", "says nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.path+" imports "+tt.imports, func(t *testing.T) {
			imported := tt.imports
			if _, ours := rowOf(imported); ours {
				imported = module + imported
			}
			got := violations(pkg{ImportPath: module + tt.path, Imports: []string{imported}})
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("refused: %q", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
				t.Errorf("violations = %q, want one with %q", got, tt.want)
			}
		})
	}
}

// TestSourceRulesAreKept checks that a violation of each rule about source code is detected.
func TestSourceRulesAreKept(t *testing.T) {
	tests := []struct{ path, source, want string }{
		{"lifecycle", `package p; func initial() {}; func (t T) init() {}; type T struct{}`, ""},
		{"lifecycle", `package p; func init() {}`, "init"},
		{"tools/shell", `package p; import "os"; var f = os.StartProcess`, "os.StartProcess"},
		{"tools/shell", `package p; import sys "syscall"; var f = sys.ForkExec`, "syscall.ForkExec"},
		{"sandbox", `package p; import "syscall"; var f = syscall.ForkExec`, ""},
		{"server", `package p; import "time"; var heard = time.Now().UnixNano()`, "machine's clock"},
		{"server", `package p; import "time"; func age(now time.Time, last int64) int64 { return now.UnixNano() - last }`, "machine's clock"},
		{"lifecycle", `package p; import "github.com/toold-dev/toold/call"; func late(at time.Time, s call.Stamp) bool { return s < call.StampOf(at) }`, "makes a stamp"},
		{"store", `package p; import "time"; func stored(at time.Time) int64 { return at.UnixNano() }`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.source, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "p.go", tt.source, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := fileViolations(tt.path, file)
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("refused: %q", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
				t.Errorf("violations = %q, want one with %q", got, tt.want)
			}
		})
	}
}

// list asks the go command, which handles build constraints and nested modules.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Dir,GoFiles,CgoFiles,Imports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var packages []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
}

func sourceViolations(t *testing.T, p pkg) []string {
	t.Helper()
	var bad []string
	files := token.NewFileSet()
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			bad = append(bad, err.Error())
			continue
		}
		if !ast.IsGenerated(file) {
			bad = append(bad, fileViolations(strings.TrimPrefix(p.ImportPath, module), file)...)
		}
	}
	return bad
}

// fileViolations looks for init functions, for ways to start a process without os/exec, and for time intervals computed from wall-clock
// numbers. When an administrator changes the clock, such an interval could end at once or never.
func fileViolations(path string, file *ast.File) []string {
	r, _ := rowOf(path)
	starts := map[string][]string{
		"os":                    {"StartProcess"},
		"syscall":               {"ForkExec", "StartProcess", "Exec"},
		"golang.org/x/sys/unix": {"Exec"},
	}
	names := map[string]string{} // names of the imports in this file
	for _, spec := range file.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		if _, ok := starts[imported]; !ok {
			continue
		}
		name := imported[strings.LastIndexByte(imported, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	var bad []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				bad = append(bad, path+" has an init function: wiring is ordinary code in daemon")
			}
		case *ast.BinaryExpr:
			if n.Op == token.SUB && (isNumberOfClock(n.X) || isNumberOfClock(n.Y)) {
				bad = append(bad, path+wallInterval)
			}
		case *ast.CallExpr:
			if at, ok := n.Fun.(*ast.SelectorExpr); ok && isNumberOfClock(n) && path != "test/bench" {
				if now, ok := at.X.(*ast.CallExpr); ok && isTimeNow(now) {
					bad = append(bad, path+wallInterval)
				}
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if ok && x.Name == "call" && n.Sel.Name == "StampOf" && !slices.Contains(stampers, path) {
				bad = append(bad, path+" makes a stamp: only the store reads its clock")
			}
			if ok && !r.starts && slices.Contains(starts[names[x.Name]], n.Sel.Name) {
				bad = append(bad, fmt.Sprintf("%s uses %s.%s: processes start in sandbox alone", path, names[x.Name], n.Sel.Name))
			}
		}
		return true
	})
	return bad
}

// stampers are the packages that may convert a time to a stamp of the store's clock. In lifecycle/policy and daemon/wire, this time is a
// date that a person or an issuer has named.
var stampers = []string{"store", "store/storetest", "lifecycle/policy", "daemon/wire", "test/bench"}

const wallInterval = " has an interval that counts from a number of the machine's clock: keep a time.Time, or nanoseconds after one"

// isNumberOfClock reports whether an expression is the time as a number that is precise enough to measure with.
func isNumberOfClock(x ast.Expr) bool {
	c, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"UnixNano", "UnixMicro", "UnixMilli"}, s.Sel.Name)
}

func isTimeNow(c *ast.CallExpr) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Now" {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "time"
}
