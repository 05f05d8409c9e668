package daemon

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/toold-dev/toold/cli"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// asking starts a call that is suspended with a question.
func asking(t *testing.T, p *proc, id string) {
	t.Helper()
	got, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{
		Tool: "ask_user", CallId: "store-tests-call-" + id, Run: &tooldv1.Run{RunId: "run-" + id}, Arguments: `{"question":"Which colour?"}`,
	}})
	must(t, err)
	if s := got.GetCall().GetStatus(); s != tooldv1.CallStatus_CALL_STATUS_SUSPENDED {
		t.Fatalf("the call is %v: %v", s, got.GetCall().GetResult())
	}
}

func (p *proc) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.wait(hangs)
}

// wants checks the exit code, and that the combined outputs contain each text.
func (r *run) wants(t *testing.T, code int, want ...string) {
	t.Helper()
	for _, w := range want {
		if r.code != code || !strings.Contains(r.out+r.err, w) {
			t.Errorf("exit code %d, want %d, with %q in\n%s%s", r.code, code, w, r.out, r.err)
		}
	}
}

// A store is copied by its running daemon and by the command, and restored. Held calls of the copy are released or ended.
func TestBackupRestoreRelease(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	for _, id := range []string{"one", "two", "three"} {
		asking(t, p, id)
	}
	dir := filepath.Dir(s.data)
	token := strings.TrimSpace(new(run).do(t, s.data, "token", "create", "ci", "--role", "caller").out)
	saved := filepath.Join(s.data, "backups", "saved")
	new(run).do(t, s.data, "backup", saved).wants(t, 0, saved+": 3 calls, 0 files of output, ")
	new(run).do(t, s.data, "backup", saved).wants(t, cli.ExitConflict, "exists already and is not empty", "BACKUP_FAILED")
	new(run).do(t, s.data, "backup").wants(t, cli.ExitUsage, "DEST")
	new(run).do(t, s.data, "backup", saved+"-of-json", "--data", s.data).wants(t, cli.ExitFailed, "data directory is in use")
	r := new(run).do(t, s.data, "backup", saved+"-json", "-o", "json")
	var got tooldv1.BackupResponse
	if err := protojson.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 || got.GetCalls() != 3 || got.GetBytes() == 0 {
		t.Errorf("exit code %d: %s, %v", r.code, r.out, err)
	}
	p.stop()
	new(run).do(t, s.data, "backup", saved+"-offline", "--data", s.data).wants(t, 0, "3 calls")
	new(run).do(t, s.data, "backup", saved+"-nothing", "--data", filepath.Join(dir, "nothing")).wants(t, cli.ExitFailed, "no such file")
	new(run).do(t, s.data, "backup", saved+"-gone").wants(t, cli.ExitUnreachable, "toold: ")

	restored := filepath.Join(dir, "restored")
	r = new(run).do(t, s.data, "restore", saved+"-offline", restored, "-o", "json")
	var copied struct{ Calls int }
	if err := json.Unmarshal([]byte(r.out), &copied); err != nil || r.code != 0 || copied.Calls != 3 {
		t.Errorf("exit code %d: %s, %v", r.code, r.out, err)
	}
	new(run).do(t, s.data, "restore", saved, restored).wants(t, cli.ExitFailed, "exists already and is not empty")
	new(run).do(t, s.data, "restore", filepath.Join(dir, "nothing"), restored+"2").wants(t, cli.ExitFailed, "no such file")
	new(run).do(t, s.data, "restore", saved).wants(t, cli.ExitUsage, "DATA")

	s.data = restored
	p = s.start()
	if p.works(token) {
		t.Error("the restored store has a token, which may have been revoked since the backup")
	}
	for _, wrong := range [][]string{{}, {"--all", "--run", "run-one"}, {"CALL", "--thread", "t"}} {
		new(run).do(t, s.data, append([]string{"release"}, wrong...)...).wants(t, cli.ExitUsage, "release takes one of")
	}
	new(run).do(t, s.data, "release", "--all", "--reason", "why").wants(t, cli.ExitUsage, "--reason needs --end")
	new(run).do(t, s.data, "release", "store-tests-call-nobody").wants(t, cli.ExitNotFound, "CALL_NOT_FOUND", "calls lists them")
	new(run).do(t, s.data, "answer", "store-tests-call-one", "red").wants(t, cli.ExitConflict, "CALL_HELD")
	new(run).do(t, s.data, "release", "store-tests-call-one").expect(t, 0, "1 calls released, 2 still held\n")
	new(run).do(t, s.data, "release", "--run", "run-two", "--end", "--reason", "ran elsewhere").expect(t, 0, "1 calls ended, 1 still held\n")
	r = new(run).do(t, s.data, "release", "--all", "-o", "json")
	var let tooldv1.ReleaseCallsResponse
	if err := protojson.Unmarshal([]byte(r.out), &let); err != nil || r.code != 0 || let.GetReleased() != 1 || let.GetHeld() != 0 {
		t.Errorf("exit code %d: %s, %v", r.code, r.out, err)
	}
	new(run).do(t, s.data, "answer", "store-tests-call-one", "red").wants(t, 0, "red")
	new(run).do(t, s.data, "calls", "show", "store-tests-call-two").wants(t, 0, "CANCELLED", "ran elsewhere")
	p.stop()
}

// TestT117Backup (T117) checks who can request a copy of the store. The copy contains the calls of all namespaces, so only an admin can
// request it. The daemon writes it only below the configured folders, and never where calls could read it.
func TestT117Backup(t *testing.T) {
	s := newSite(t, "")
	dir := filepath.Dir(s.data)
	allowed, token := filepath.Join(dir, "allowed"), "operator-of-b-0123456789abcdefgh"
	sum := sha256.Sum256([]byte(token))
	config := filepath.Join(dir, "toold.yaml")
	write := func(folders ...string) {
		must(t, os.WriteFile(config, fmt.Appendf(nil, "auth:\n  tokens:\n    - {name: bea, namespace: b, roles: [caller, approver, operator, viewer], hash: \"sha256:%x\"}\nbackup:\n  directories: [%s]\n",
			sum, strings.Join(folders, ", ")), 0o600))
	}
	write(filepath.Join(s.workspace, "backups"))
	if out, err := s.command("--config", config).CombinedOutput(); err == nil || !strings.Contains(string(out), "backup.directories") {
		t.Fatalf("a folder in the workspace: %v\n%s", err, out)
	}
	must(t, os.Mkdir(allowed, 0o700))
	must(t, os.Symlink(s.workspace, filepath.Join(allowed, "link")))
	write(allowed)
	p := s.start("--config", config)
	conn, err := grpc.NewClient(p.ready.TCP, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(token)))
	must(t, err)
	defer conn.Close()
	theirs := tooldv1.NewAdminServiceClient(conn)
	for what, f := range map[string]func() error{
		"Backup": func() error {
			_, err := theirs.Backup(within(t), &tooldv1.BackupRequest{Directory: filepath.Join(allowed, "b")})
			return err
		},
		"Drain":  func() error { _, err := theirs.Drain(within(t), &tooldv1.DrainRequest{}); return err },
		"Reload": func() error { _, err := theirs.Reload(within(t), &tooldv1.ReloadRequest{}); return err },
		"SetLogLevel": func() error {
			_, err := theirs.SetLogLevel(within(t), &tooldv1.SetLogLevelRequest{Level: 1})
			return err
		},
	} {
		if err := f(); reasonOf(err) != "ROLE_REQUIRED" {
			t.Errorf("%s by the operator of a namespace: %v", what, err)
		}
	}
	for _, at := range []string{
		filepath.Join(s.workspace, "copy"), filepath.Join(allowed, "link", "copy"), filepath.Join(allowed, "..", "work", "copy"), allowed,
		filepath.Join(allowed, "..", "elsewhere"), filepath.Join(s.data, "backups", "copy"),
	} {
		if _, err := p.admin.Backup(within(t), &tooldv1.BackupRequest{Directory: at}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a backup to %s: %v", at, err)
		}
	}
	_, err = p.admin.Backup(within(t), &tooldv1.BackupRequest{Directory: filepath.Join(allowed, "deep", "copy")})
	must(t, err)
}

// TestPurgeCommand checks that the command purge erases the named calls only after a confirmation.
func TestPurgeCommand(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	asking(t, p, "one")
	asking(t, p, "two")
	const one, two = "store-tests-call-one", "store-tests-call-two"
	for _, wrong := range [][]string{{"--yes"}, {one, "--run", "r", "--yes"}, {"--run", "r", "--thread", "t", "--yes"}} {
		new(run).do(t, s.data, append([]string{"purge"}, wrong...)...).wants(t, cli.ExitUsage, "purge takes one of")
	}
	new(run).do(t, s.data, "purge", one).wants(t, cli.ExitUsage, "use --yes to confirm")
	new(run).do(t, s.data, "purge", one, "--yes").wants(t, cli.ExitConflict, "CALL_NOT_ENDED", "toold cancel")
	new(run).do(t, s.data, "answer", one, "red").wants(t, 0, "red")
	new(run).do(t, s.data, "cancel", two).wants(t, 0, "CANCELLED")
	(&run{terminal: true, in: "n\n"}).do(t, s.data, "purge", one).wants(t, cli.ExitFailed, "Erase the content of 1 calls permanently? [y/N]", "nothing was done")
	new(run).do(t, s.data, "calls", "show", one).wants(t, 0, "Which colour?")
	(&run{terminal: true, in: "y\n"}).do(t, s.data, "purge", one, two).expect(t, 0, "2 calls purged, 0 already had no content\n")
	r := new(run).do(t, s.data, "purge", "--run", "run-two", "--yes", "-o", "json")
	var got tooldv1.PurgeResponse
	if err := protojson.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 || got.GetWithoutContent() != 1 || got.GetPurged() != 0 {
		t.Errorf("exit code %d: %s, %v", r.code, r.out, err)
	}
	shown := new(run).do(t, s.data, "calls", "show", one)
	shown.wants(t, 0, "purged", "The content of this call was erased.")
	if strings.Contains(shown.out, "colour") || strings.Contains(shown.out, `"red"`) {
		t.Errorf("still there:\n%s", shown.out)
	}
	new(run).do(t, s.data, "purge", "--thread", "nobody", "--yes").wants(t, cli.ExitNotFound, "THREAD_NOT_FOUND")
	p.stop()
}

const private = "Rb4xPrivateKq9vLm"

// filesWith returns the files below a directory that contain the private text or half of it, because a page of the store may split the
// text.
func filesWith(t *testing.T, dir string) (found []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(private[:8])) || bytes.Contains(b, []byte(private[8:])) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// TestPurgeKilled kills the daemon in the middle of a purge of many calls. Each call must then be either unchanged or completely purged,
// also after the next start. A second purge purges the remaining calls.
func TestPurgeKilled(t *testing.T) {
	s := newSite(t, bashAllowed)
	const calls = 200
	for round, killAt := range []int{0, calls / 2, calls - 1} { // The daemon is killed when the first call, half of the calls, or the last call is purged. After the last call, the purge rewrites the journal.
		thread := fmt.Sprint("thread-", round)
		id := func(i int) string { return fmt.Sprintf("purge-tests-call-%d-%03d", round, i) }
		p := s.start()
		for i := range calls {
			spec := &tooldv1.CallSpec{CallId: id(i), Run: &tooldv1.Run{RunId: fmt.Sprintf("run-%d-%d", round, i%7), ThreadId: thread, Labels: map[string]string{"of": private}}}
			if spec.Tool, spec.Arguments = "glob", `{"pattern":"`+private+`*"}`; i%20 == 0 {
				spec.Tool, spec.Arguments = "bash", `{"command":"for i in $(seq 5000); do echo `+private+`; done"}`
			}
			got, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: spec})
			must(t, err)
			if status := got.GetCall().GetStatus(); status != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
				t.Fatalf("%s is %v: %v", id(i), status, got.GetCall().GetResult())
			}
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = p.admin.Purge(within(t), &tooldv1.PurgeRequest{ThreadId: thread})
		}()
		get := func(i int) *tooldv1.Call {
			got, err := p.calls.GetCall(within(t), &tooldv1.GetCallRequest{CallId: id(i)})
			must(t, err)
			return got.GetCall()
		}
		eventually(t, "a call is purged", func() bool { return get(killAt).GetPurge() != nil })
		p.kill()
		<-ended

		p = s.start()
		whole := int64(0)
		for i := range calls {
			c := get(i)
			if kept := strings.Contains(c.GetRequestedArguments(), private); kept == (c.GetPurge() != nil) || kept != (len(c.GetRun().GetLabels()) > 0) {
				t.Errorf("%s is neither whole nor purged: %v", id(i), c)
			} else if kept {
				whole++
			}
		}
		t.Logf("killed when call %d was purged: %d of %d are whole, %d files hold something", killAt, whole, calls, len(filesWith(t, s.data)))
		got, err := p.admin.Purge(within(t), &tooldv1.PurgeRequest{ThreadId: thread})
		if err != nil || got.GetPurged() != whole || got.GetPurged()+got.GetWithoutContent() != calls {
			t.Errorf("Purge = %v, %v, want %d of %d", got, err, whole, calls)
		}
		if found := filesWith(t, s.data); len(found) > 0 {
			t.Errorf("still in %v", found)
		}
		p.stop()
		if found := filesWith(t, s.data); len(found) > 0 {
			t.Errorf("after the end in %v", found)
		}
	}
}
