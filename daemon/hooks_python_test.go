package daemon

import (
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// The example HookService in Python decides about the calls of a real daemon. Its stubs are generated as its header describes.
func TestHooksOfPythonService(t *testing.T) {
	dir := t.TempDir()
	protos, err := filepath.Glob("../proto/toold/v1/*.proto")
	must(t, err)
	plugin, err := exec.LookPath("grpc_python_plugin")
	must(t, err) // scripts/need.sh names the packages to install
	args := append([]string{"-I", "../proto", "--python_out=" + dir, "--grpc_out=" + dir, "--plugin=protoc-gen-grpc=" + plugin}, protos...)
	if out, err := exec.CommandContext(t.Context(), "protoc", args...).CombinedOutput(); err != nil {
		t.Fatalf("protoc: %v\n%s", err, out)
	}
	program, err := filepath.Abs("../examples/hooks/service/policy.py")
	must(t, err)
	service := exec.CommandContext(t.Context(), "/usr/bin/python3", program, filepath.Join(dir, "s")) // Debian's Python, for which the packages are installed
	service.Env = []string{"PYTHONPATH=" + dir, "PYTHONDONTWRITEBYTECODE=1"}
	stderr := &logBuffer{}
	service.Stderr = stderr
	must(t, service.Start())
	t.Cleanup(func() { _ = service.Process.Kill(); _ = service.Wait() })

	const token = "of-somebody-who-only-calls"
	config := fmt.Sprintf("auth:\n  tokens:\n    - {name: carol, roles: [caller], hash: '%s%x'}\n", "sha256:", sha256.Sum256([]byte(token)))
	p := newPluginSite(t, config+"hooks:\n  - name: policy\n    kinds: [gate, after]\n    remote: {address: 'unix:"+dir+"/s'}\n")
	eventually(t, "the service answers", func() bool {
		return p.call("bash", `{"command":"true"}`).GetError() == nil
	})
	if got := p.call("bash", `{"command":"echo write to alice@example.org"}`); got.GetError() != nil || !strings.Contains(got.String(), "write to ***") || strings.Contains(got.String(), "alice@") {
		t.Errorf("a result that the service changes: %v\n%s", got, stderr)
	}
	if e := p.call("read", `{"path":"bob@example.org"}`).GetError(); e.GetCode() == 0 || !strings.Contains(e.GetMessage(), "***") || strings.Contains(e.GetMessage(), "bob@") {
		t.Errorf("an error that the service changes: %v\n%s", e, stderr)
	}
	conn, err := grpc.NewClient(p.p.ready.TCP, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(token)))
	must(t, err)
	defer conn.Close()
	got, err := tooldv1.NewCallServiceClient(conn).CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "bash", Arguments: `{"command":"rm -rf x"}`}})
	must(t, err)
	if e := got.GetCall().GetResult().GetError(); e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_DENIED || !strings.Contains(e.GetMessage(), "only an operator") {
		t.Errorf("a call that the service refuses: %v\n%s", got, stderr)
	}
	if r := new(run).do(t, p.data, "hooks", "-o", "table"); r.code != 0 || !strings.Contains(r.out, "policy") || !strings.Contains(r.out, "good") {
		t.Errorf("toold hooks: %+v\n%s", r, stderr)
	}
}
