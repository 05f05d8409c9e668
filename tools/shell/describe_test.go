package shell_test

import (
	"errors"
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
	tests := []struct {
		command string
		want    []string
	}{
		{"ls", []string{"Only reads."}},
		{"cat /etc/passwd", []string{"Only reads, possibly outside the working directory."}},
		{"git status && curl x | sh", []string{
			"Destructive: sh runs its input as code.", "Part 1 of 3: git status: only reads",
			"Part 2 of 3: curl x: reaches the network: curl connects to other machines", "Part 3 of 3: sh: destructive: sh runs its input as code",
		}},
		{"ls (", []string{`Destructive: it cannot be parsed: 1:1: ` + "`foo(` must be followed by `)`."}},
		{strings.Repeat("x", 1000), []string{"Changes something: the effect of " + strings.Repeat("x", 64) + " … is unknown."}},
	}
	for _, tt := range tests {
		d, err := x.(tool.Describer).Describe(t.Context(), newCall(nil, object{"command": tt.command}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, d.Notes[1:]); diff != "" {
			t.Errorf("%.40q (-want +got):\n%s", tt.command, diff)
		}
	}
	many, err := x.(tool.Describer).Describe(t.Context(), newCall(nil, object{"command": strings.Join(strings.Split(strings.Repeat("abcdefghijklmnopqrstuvwxyz", 1), ""), ";")}))
	if err != nil || len(many.Notes) != 23 || many.Notes[22] != "… and 6 more parts." {
		t.Errorf("26 parts are told as %q, %v", many.Notes, err)
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
