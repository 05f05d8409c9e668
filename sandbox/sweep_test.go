package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toold-dev/toold/sandbox"
)

// TestSweepAfterKill checks that, after a daemon is killed with SIGKILL, the next daemon finds and kills the processes of the old daemon's
// call.
func TestSweepAfterKill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	old := exec.Command(self, `sleep 1000 & echo $! >> pids
		(setsid bash -c 'trap "" TERM; echo $$ >> pids; sleep 1000; sleep 1000' >/dev/null 2>&1 &)
		env -i setsid sleep 1002 & echo $! >> pids
		echo $$ > main; sleep 1000`)
	old.Env = []string{daemonVariable + "=" + owner() + "=" + dir}
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if old.ProcessState != nil {
			return // The stray processes are dead, so other processes may have their PIDs now.
		}
		old.Process.Kill()
		old.Wait()
		for _, pid := range pids(t, dir) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	until(t, "the strays, and the record of the one without a tag", func() bool {
		records, _ := filepath.Glob(filepath.Join(state, "*.json"))
		if len(records) != 1 || len(pids(t, dir)) != 3 {
			return false
		}
		text, err := os.ReadFile(records[0])
		return err == nil && strings.Contains(string(text), "away")
	})
	main, err := os.ReadFile(filepath.Join(dir, "main"))
	if err != nil {
		t.Fatal(err)
	}
	old.Process.Kill()
	old.Wait()

	r := openIn(t, state)
	until(t, "the death of the main process with the daemon", func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(main)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z")
	})
	for _, pid := range pids(t, dir) {
		if !exists(pid) {
			t.Fatalf("process %d died with the daemon: nothing to sweep", pid)
		}
	}
	swept, err := r.Sweep(t.Context())
	if err != nil || len(swept.Unverified) > 0 {
		t.Errorf("swept %+v, %v", swept, err)
	}
	mustHaveEnded(t, pids(t, dir))
	tagged := 0
	for _, p := range swept.Killed {
		if p.Tag == "call-1" {
			tagged++
		}
	}
	if tagged < 2 {
		t.Errorf("killed %+v: the call is not named", swept.Killed)
	}
	if swept, err := r.Sweep(t.Context()); err != nil || len(swept.Killed)+len(swept.Unverified) > 0 {
		t.Errorf("second sweep: %+v, %v", swept, err)
	}
}

// The test checks that Sweep identifies processes exactly, and never kills one only because of its name, its number or another owner's tag.
func TestSweepSparesOthers(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	now := strings.TrimSpace(string(boot))
	living := fmt.Sprintf("%d.%d", os.Getppid(), startOf(t, os.Getppid()))
	tests := []struct {
		name   string
		env    []string
		record func(pid int, start uint64) string // nil means no record
		dies   bool
	}{
		{"unrelated", nil, nil, false},
		{"tag of this owner", []string{"TOOLD_CALL=" + owner() + "/1.1/x/call-9"}, nil, true},
		{"tag of this owner that does not parse", []string{"TOOLD_CALL=" + owner() + "/1/x/call-9"}, nil, false},
		{"tag of another owner", []string{"TOOLD_CALL=" + owner() + "0/1.1/x/call-9"}, nil, false},
		{"tag of another daemon that is alive", []string{"TOOLD_CALL=" + owner() + "/" + living + "/x/call-9"}, nil, false},
		{"tag in another variable", []string{"XTOOLD_CALL=" + owner() + "/1.1/x/call-9", "A=TOOLD_CALL=" + owner() + "/1.1/x/y"}, nil, false},
		{"record", nil, func(pid int, start uint64) string { return recordOf(now, pid, start) }, true},
		{"record of another start time", nil, func(pid int, start uint64) string { return recordOf(now, pid, start-1) }, false},
		{"record of another boot", nil, func(pid int, start uint64) string { return recordOf("0", pid, start) }, false},
		{"record of another daemon that is alive", nil, func(pid int, start uint64) string {
			daemon := strings.Replace(living, ".", `,"start":`, 1)
			return strings.Replace(recordOf(now, pid, start), "{", `{"daemon":{"pid":`+daemon+`},`, 1)
		}, false},
		{"record cut off", nil, func(pid int, start uint64) string { return recordOf(now, pid, start)[:60] }, false},
		{"record with leavings", nil, func(pid int, start uint64) string { return recordOf(now, pid, start) + `,"x` }, true},
		{"record empty", nil, func(int, uint64) string { return "" }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			state := t.TempDir()
			child := exec.Command("/bin/sleep", "1000")
			child.Env = append([]string{"A=1"}, tt.env...)
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			pid := child.Process.Pid
			if tt.record != nil {
				text := tt.record(pid, startOf(t, pid))
				if err := os.WriteFile(filepath.Join(state, "R.json"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r := openIn(t, state)
			swept, err := r.Sweep(t.Context())
			os.Remove(filepath.Join(state, "R.json")) // Removed by the test, because Sweep keeps the record of another daemon.
			if err != nil || len(swept.Unverified) > 0 {
				t.Errorf("swept %+v, %v", swept, err)
			}
			hit := slices.ContainsFunc(swept.Killed, func(p sandbox.Process) bool { return p.PID == pid })
			if hit != tt.dies || len(swept.Killed) > 1 || exists(pid) == tt.dies {
				t.Errorf("killed %+v; exists: %t", swept.Killed, exists(pid))
			}
			child.Process.Kill()
			child.Wait()
		})
	}
}

func recordOf(boot string, pid int, start uint64) string {
	return fmt.Sprintf(`{"boot":%q,"main":{"pid":%d,"start":%d}}`, boot, pid, start)
}

func startOf(t *testing.T, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var start uint64
	if err := json.Unmarshal([]byte(strings.Fields(string(text))[21]), &start); err != nil {
		t.Fatal(err)
	}
	return start
}

func TestSweepSparesRuns(t *testing.T) {
	r := open(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *sandbox.Exit)
	go func() {
		exit, _ := r.Run(ctx, bash(dir, `(setsid sleep 1000 & echo $! > pids); sleep 1000`))
		done <- exit
	}()
	until(t, "start", func() bool { return len(pids(t, dir)) == 1 })
	swept, err := r.Sweep(t.Context())
	if err != nil || len(swept.Killed)+len(swept.Unverified) > 0 || !exists(pids(t, dir)[0]) {
		t.Errorf("swept %+v, %v", swept, err)
	}
	cancel()
	mustBeConfirmed(t, <-done)
	mustHaveEnded(t, pids(t, dir))
}

// The test checks that Sweep reports process 1 of a run with the tag of the call. The environment of process 1 contains another tag, the
// helper's.
func TestSweepNamesTheCall(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	child := exec.Command("/bin/sleep", "1000")
	child.Env = []string{sandbox.TagVariable + "=" + owner() + "/1.1/x/helper"}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	record := recordOf(strings.TrimSpace(string(boot)), child.Process.Pid, startOf(t, child.Process.Pid))
	record = strings.TrimSuffix(record, "}") + `,"tag":"call-7"}`
	if err := os.WriteFile(filepath.Join(state, "R.json"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	swept, err := openIn(t, state).Sweep(t.Context())
	if err != nil || len(swept.Killed) != 1 || swept.Killed[0].Tag != "call-7" {
		t.Errorf("%+v, %v", swept, err)
	}
}

func TestRecordHasTheCall(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	r, dir := openIn(t, state), t.TempDir()
	spec := confined(dir, "echo up; read")
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	spec.Stdin, spec.Tag = in, "call-8"+strings.Repeat("x", 1000)
	spec.Output = func(string, []byte) error {
		defer out.Close()
		files, _ := filepath.Glob(filepath.Join(state, "*.json"))
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), `"tag":"call-8xx`) && len(text) < 1000 {
				return nil
			}
		}
		t.Errorf("no record of %q names it", files)
		return nil
	}
	if exit, err := r.Run(t.Context(), spec); err != nil {
		t.Error(exit, err)
	}
}
