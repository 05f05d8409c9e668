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
	"time"
)

// edit opens text in the user's editor and returns the edited JSON text. The editor runs on the user's terminal, with the user's rights and
// environment. It stays in the process group of this process, so that Ctrl-Z stops both. The editor handles Ctrl-C itself.
func (a *App) edit(ctx context.Context, text string) (string, error) {
	editor := cmp.Or(a.getenv("VISUAL"), a.getenv("EDITOR"))
	if editor == "" && !a.InTerminal {
		return "", Usagef("--edit requires a terminal, or an editor in $VISUAL or $EDITOR that works without one; --arguments takes the arguments as JSON")
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
	// A shell runs the editor because $EDITOR may contain options. The file is a separate argument, so the shell does not interpret its
	// name. The trap keeps the shell alive on Ctrl-C and leaves the editor's handling of it unchanged.
	command := exec.CommandContext(ctx, "/bin/sh", "-c", "trap : INT; "+editor+` "$1"`, "sh", file)
	command.Stdin, command.Stdout, command.Stderr, command.Env = a.In, a.Err, a.Err, a.Environ
	a.editing.Add(1)
	const late = 500 * time.Millisecond // a Ctrl-C that ended the editor may reach this process only after the editor has ended
	defer time.AfterFunc(late, func() { a.editing.Add(-1) })
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
		return "", codedError{fmt.Errorf("the arguments are unchanged; nothing was decided (approve without --edit to approve them unchanged)"), ExitFailed}
	case !json.Valid([]byte(after)):
		return "", codedError{fmt.Errorf("that is not JSON; nothing was decided"), ExitUsage}
	}
	return after, nil
}
