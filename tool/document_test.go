package tool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
)

type prefs struct {
	Language string `json:"language"`
}

var prefsKey = tool.Key[prefs]{Scope: tool.ThreadScope, Name: "prefs"}

type snapshot map[string]tool.Document

var errJournal = errors.New("journal is closed")

func (s snapshot) Get(scope tool.Scope, key string) (tool.Document, bool, error) {
	if key == "unreadable" {
		return tool.Document{}, false, errJournal
	}
	d, ok := s[string(scope)+"/"+key]
	return d, ok, nil
}

func TestKeyGet(t *testing.T) {
	docs := snapshot{
		"THREAD/prefs": {Value: `{"language":"de"}`, Revision: 7},
		"THREAD/other": {Value: `[1]`, Revision: 2},
		"RUN/prefs":    {Value: `{"language":"fr"}`, Revision: 1},
	}
	tests := []struct {
		name     string
		call     tool.Call
		key      tool.Key[prefs]
		want     string
		revision int64
		err      string
	}{
		{"stored", tool.Call{Documents: docs}, prefsKey, "de", 7, ""},
		{"other scope", tool.Call{Documents: docs}, tool.Key[prefs]{Scope: tool.RunScope, Name: "prefs"}, "fr", 1, ""},
		{"none yet", tool.Call{Documents: snapshot{}}, prefsKey, "", 0, ""},
		{"no snapshot", tool.Call{}, prefsKey, "", 0, ""},
		{"another type", tool.Call{Documents: docs}, tool.Key[prefs]{Scope: tool.ThreadScope, Name: "other"}, "", 0, "document THREAD other"},
		{"journal", tool.Call{Documents: docs}, tool.Key[prefs]{Name: "unreadable"}, "", 0, errJournal.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, revision, err := tt.key.Get(&tt.call)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error = %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got.Language != tt.want || revision != tt.revision {
				t.Errorf("Get = %+v, %d, %v, want %q, %d", got, revision, err, tt.want, tt.revision)
			}
		})
	}
}

func TestKeyCommands(t *testing.T) {
	set := prefsKey.Set(prefs{"de"})
	if set.Op != tool.OpSet || set.Scope != tool.ThreadScope || set.Key != "prefs" || set.Value != `{"language":"de"}` || set.Expected != nil {
		t.Errorf("Set = %+v", set)
	}
	// Expected must point to 0, which means that no document exists. A nil Expected would mean any revision.
	if at := prefsKey.SetAt(prefs{"de"}, 0); at.Expected == nil || *at.Expected != 0 || at.Value != set.Value {
		t.Errorf("SetAt 0 = %+v", at)
	}
	if at := prefsKey.SetAt(prefs{"de"}, 7); at.Expected == nil || *at.Expected != 7 {
		t.Errorf("SetAt 7 = %+v", at)
	}
	if del := prefsKey.Delete(); del.Op != tool.OpDelete || del.Scope != tool.ThreadScope || del.Key != "prefs" || del.Value != "" {
		t.Errorf("Delete = %+v", del)
	}
}

func TestKeyCommandsOnWhatIsThere(t *testing.T) {
	count := tool.Key[int64]{Scope: tool.NamespaceScope, Name: "count"}
	list := tool.Key[[]prefs]{Scope: tool.RunScope, Name: "list"}
	for want, c := range map[string]tool.Command{
		`merge THREAD prefs {"language":null}`: prefsKey.Merge(map[string]any{"language": nil}),
		`add NAMESPACE count -7`:               count.Add(-7),
		`add NAMESPACE count 1e2`:              count.Add(json.Number("1e2")),
		`append RUN list {"language":"de"}`:    list.Append(prefs{"de"}),
	} {
		if got := fmt.Sprint(c.Op, " ", c.Scope, " ", c.Key, " ", c.Value); got != want || c.Expected != nil {
			t.Errorf("command %s, want %s", got, want)
		}
	}
	for op, exclusive := range map[tool.CommandOp]bool{tool.OpSet: true, tool.OpMerge: true, tool.OpDelete: true, tool.OpAdd: false, tool.OpAppend: false} {
		if op.Exclusive() != exclusive {
			t.Errorf("%s: exclusive %t", op, op.Exclusive())
		}
	}
}
