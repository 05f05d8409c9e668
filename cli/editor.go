package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// edit lets the user change JSON text in an editor and returns what came of it. The editor runs on the user's terminal
// with the user's rights; nothing of the daemon is in it. It stays in our process group, so that Ctrl-Z stops us both; of
// Ctrl-C it decides itself what it means.
func (a *App) edit(ctx context.Context, text string) (string, error) {
	editor := cmp.Or(a.getenv("VISUAL"), a.getenv("EDITOR"))
	if editor == "" && !a.InTerminal {
		return "", Usagef("--edit needs a terminal, or an editor that needs none in $VISUAL or $EDITOR; --arguments takes the arguments as JSON")
	}
	dir, err := os.MkdirTemp("", "toold-edit-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(text), "", "  "); err != nil {
		return "", fmt.Errorf("the arguments are not JSON: %w", err)
	}
	pretty.WriteByte('\n')
	file := filepath.Join(dir, "arguments.json")
	if err := os.WriteFile(file, pretty.Bytes(), 0o600); err != nil {
		return "", err
	}
	editor = cmp.Or(editor, "vi")
	// The variable may hold options, so a shell splits it; the file is an argument and no part of the text. The shell
	// outlives a Ctrl-C, which its trap leaves to the editor as it was.
	command := exec.CommandContext(ctx, "/bin/sh", "-c", "trap : INT; "+editor+` "$1"`, "sh", file)
	command.Stdin, command.Stdout, command.Stderr, command.Env = a.In, a.Err, a.Err, a.Environ
	a.editing.Store(true)
	defer a.editing.Store(false)
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("editor %s: %w", editor, err)
	}
	edited, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	after := strings.TrimSpace(string(edited))
	switch {
	case after == "":
		return "", codedError{fmt.Errorf("the file is empty; nothing was decided"), ExitFailed}
	case after == strings.TrimSpace(pretty.String()):
		return "", codedError{fmt.Errorf("the arguments are as they were; nothing was decided (without --edit they are approved as they are)"), ExitFailed}
	case !json.Valid([]byte(after)):
		return "", codedError{fmt.Errorf("that is not JSON; nothing was decided"), ExitUsage}
	}
	return after, nil
}
