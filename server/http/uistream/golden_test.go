package uistream_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/uistream"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A transcript is what a watch of a run of a real daemon returned, with the requested arguments of its calls.
type transcript struct {
	arguments map[string]string
	frames    []*tooldv1.Frame
}

func read(t testing.TB, file string) transcript {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := transcript{arguments: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		var l struct{ Call, Frame json.RawMessage }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Call != nil {
			var c tooldv1.Call
			if err := protojson.Unmarshal(l.Call, &c); err != nil {
				t.Fatal(err)
			}
			out.arguments[c.GetCallId()] = c.GetRequestedArguments()
			continue
		}
		var f tooldv1.Frame
		if err := protojson.Unmarshal(l.Frame, &f); err != nil {
			t.Fatal(err)
		}
		out.frames = append(out.frames, &f)
	}
	return out
}

// play returns the chunks of a transcript, one on each line.
func (tr *transcript) play(t testing.TB, version int) []byte {
	m := uistream.New("m1", version)
	chunks := m.Start()
	for _, f := range tr.frames {
		more, err := m.Frame(f, func(id string) (string, error) { return tr.arguments[id], nil })
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, more...)
	}
	if calls, open, _ := m.Seen(); calls != len(tr.arguments) || open != 0 {
		t.Errorf("%d calls, %d of them open, at the end of a transcript with %d", calls, open, len(tr.arguments))
	}
	var out bytes.Buffer
	for _, c := range append(chunks, m.Finish()...) {
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}

// TestGolden compares the chunks with golden files. turn/providers/uistream.mjs gives the same chunks to the AI SDK itself.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		for version, suffix := range map[int]string{6: ".v6", 7: ".v7"} {
			t.Run(filepath.Base(file)+suffix, func(t *testing.T) {
				tr := read(t, file)
				got, golden := tr.play(t, version), strings.TrimSuffix(file, ".jsonl")+suffix
				if *update {
					if err := os.WriteFile(golden, got, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("got\n%swant\n%s", got, want)
				}
			})
		}
	}
}

// TestFramesOfAnySize checks that the message does not depend on the frames. When a watcher is slow or begins late, the same events arrive
// in other frames. The lasting parts of the message must be the same.
func TestFramesOfAnySize(t *testing.T) {
	tr := read(t, "testdata/approved.jsonl")
	want := tr.play(t, 7)
	var one tooldv1.Frame
	for _, f := range tr.frames {
		one.Events = append(one.Events, f.GetEvents()...)
	}
	tr.frames = []*tooldv1.Frame{&one}
	if got := keep(tr.play(t, 7)); !bytes.Equal(got, keep(want)) {
		t.Errorf("got\n%swant\n%s", got, keep(want))
	}
}

// keep returns the chunks without preliminary outputs.
func keep(chunks []byte) []byte {
	var out []byte
	for line := range bytes.Lines(chunks) {
		if !bytes.Contains(line, []byte(`"preliminary":true`)) {
			out = append(out, line...)
		}
	}
	return out
}
