package shell_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
	"github.com/toold-dev/toold/tools/shell"
)

func TestDescribe(t *testing.T) {
	x := bash(t, shell.Config{Exec: script{}})
	tests := []struct {
		name, command, title string
	}{
		{"one line", "make test", "make test"},
		{"blank lines", "\n\n make test\n", "make test"},
		{"more lines", "make test\nrm -rf /", "make test …"},
		{"long line", strings.Repeat("ä", 100), strings.Repeat("ä", 80) + " …"},
		// Spaces in the middle of a command must not hide its end (T66).
		{"padding", "true" + strings.Repeat(" ", 5000) + "; rm -rf /", "true …"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := x.(tool.Describer).Describe(t.Context(), newCall(nil, object{"command": tt.command, "description": "harmless"}))
			if err != nil || d.Kind != tool.KindExecute || d.Title != tt.title {
				t.Errorf("description = %+v, %v, want the title %q", d, err, tt.title)
			}
			// The approver must see every byte of the command, and which words come from the model.
			if len(d.Preview) != 1 || d.Preview[0].Type != tool.ContentText || d.Preview[0].Text != tt.command {
				t.Errorf("preview = %+v", d.Preview)
			}
			if len(d.Notes) < 3 || !strings.Contains(d.Notes[0], "without isolation") || d.Notes[len(d.Notes)-1] != "The model says: harmless" {
				t.Errorf("notes = %q", d.Notes)
			}
		})
	}
}

// The test checks that the description contains the parts and their effects, and that these texts contain no words of the model.
func TestDescribeParts(t *testing.T) {
	x := bash(t, shell.Config{Exec: script{}, Dir: "/srv/ws"})
	part := func(text string, safety tool.Safety, reason string) tool.CommandPart {
		return tool.CommandPart{Text: text, Safety: safety, Reason: reason}
	}
	unknown := func(p tool.CommandPart) tool.CommandPart { p.Unknown = true; return p }
	long := strings.Repeat("x", 2000)
	tests := []struct {
		command, note string
		parts         []tool.CommandPart
	}{
		{"ls", "Only reads.", []tool.CommandPart{part("ls", tool.SafetyReadOnly, "")}},
		{"cat /etc/passwd", "Only reads, possibly outside the working directory.", []tool.CommandPart{part("cat /etc/passwd", tool.SafetyReadOnly, "")}},
		{"git status && curl x | sh", "Destructive: sh runs its input as code.", []tool.CommandPart{
			part("git status", tool.SafetyReadOnly, ""), part("curl x", tool.SafetyNetwork, "curl connects to other machines"),
			unknown(part("sh", tool.SafetyDestructive, "sh runs its input as code")),
		}},
		{"$GEN --out x", "Destructive: the program is known only at run time.", []tool.CommandPart{
			unknown(part("$GEN --out x", tool.SafetyDestructive, "the program is known only at run time")),
		}},
		{"ls (", `Destructive: it cannot be parsed: 1:1: ` + "`foo(` must be followed by `)`.", []tool.CommandPart{}},
		{long, "Changes something: the effect of " + strings.Repeat("x", 64) + " … is unknown.", []tool.CommandPart{
			part(strings.Repeat("x", 1023)+" …", tool.SafetyMutating, "the effect of "+strings.Repeat("x", 64)+" … is unknown"),
		}},
	}
	for _, tt := range tests {
		d, err := x.(tool.Describer).Describe(t.Context(), newCall(nil, object{"command": tt.command}))
		if err != nil || d.Notes[1] != tt.note {
			t.Errorf("%.40q has the notes %q, %v, want %q", tt.command, d.Notes, err, tt.note)
		}
		if diff := cmp.Diff(tt.parts, d.Command); diff != "" {
			t.Errorf("%.40q (-want +got):\n%s", tt.command, diff)
		}
	}
	var many []string
	for i := range 70 {
		many = append(many, fmt.Sprint("ls ", i))
	}
	d, err := x.(tool.Describer).Describe(t.Context(), newCall(nil, object{"command": strings.Join(many, ";")}))
	if err != nil || len(d.Command) != 64 || d.Notes[2] != "The command has 70 parts; the list shows 64." {
		t.Errorf("70 parts are shown as %d with %q, %v", len(d.Command), d.Notes, err)
	}
}

func TestValidate(t *testing.T) {
	v := bash(t, shell.Config{Exec: script{}}).(tool.Validator)
	for _, command := range []string{"", " \n", "echo a\x00b"} {
		err := v.Validate(typed.Args(object{"command": command}))
		var e *tool.Error
		if !errors.As(err, &e) || e.Code != tool.InvalidArguments || len(e.Violations) != 1 || e.Violations[0].Field != "command" {
			t.Errorf("%q: %+v", command, e)
		}
	}
	if err := v.Validate(typed.Args(object{"command": "echo a\nb"})); err != nil {
		t.Error(err)
	}
}

func TestDescriptor(t *testing.T) {
	d := bash(t, shell.Config{Exec: script{}}).Descriptor()
	e := d.Effects.Normal()
	if e.Mutability != tool.Mutating || e.Safety != tool.SafetyDestructive || e.Tier != tool.Confirm || e.ConcurrencySafe {
		t.Errorf("effects = %+v", e)
	}
	// Models read in the description that there is no isolation, and operators read it in the metadata.
	if d.RequiredIsolation != tool.IsolationNone || !strings.Contains(d.Description, "no isolation") || d.Metadata["isolation"] == "" {
		t.Errorf("isolation %q, %q, %q", d.RequiredIsolation, d.Description, d.Metadata)
	}
	// The timeout of the command must expire before the timeout of the attempt, because only then does the result contain the output.
	if d.Timeouts.Attempt <= shell.MaxTimeout*time.Second {
		t.Errorf("an attempt ends after %v, a command after %d s", d.Timeouts.Attempt, shell.MaxTimeout)
	}
	if d.MaxArguments != 64<<10 || d.OutputBudget != 48<<10 {
		t.Errorf("max_arguments %d, output_budget %d", d.MaxArguments, d.OutputBudget)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]shell.Config{
		"no exec":            {Dir: "/"},
		"no directory":       {Exec: script{}},
		"relative directory": {Exec: script{}, Dir: "workspace"},
		"relative shell":     {Exec: script{}, Dir: "/", Shell: "bash"},
		"tiny budget":        {Exec: script{}, Dir: "/", OutputBudget: 100},
	} {
		if _, _, err := shell.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
