package jsonform_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/jsonform"
)

const protos = "../../../proto/toold/v1"

// notText has the fields whose comments say "JSON text" although their content is not a whole JSON text in a string.
var notText = map[string]string{
	"AuditRecord.record": "bytes, because the chain covers them exactly",
	"TurnMessage.part":   "a part of a JSON text",
}

// TestTextFields compares the fields of the package with the comments of the protos: a field holds JSON text if its comment says so.
func TestTextFields(t *testing.T) {
	documented := map[string]bool{}
	files, err := filepath.Glob(protos + "/*.proto")
	if err != nil || len(files) < 11 {
		t.Fatalf("%d protos, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range documentedIn(string(text)) {
			if notText[name] == "" {
				documented[name] = true
			}
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage(tooldv1.File_toold_v1_call_proto.Package(), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Messages().Len() {
			fields := f.Messages().Get(i).Fields()
			for j := range fields.Len() {
				name := string(f.Messages().Get(i).Name()) + "." + string(fields.Get(j).Name())
				switch holds := jsonform.HoldsJSON(fields.Get(j)); {
				case holds != documented[name]:
					t.Errorf("%s: its comment says JSON text: %t; the table of jsonform has it: %t", name, documented[name], holds)
				case holds && (fields.Get(j).Kind() != protoreflect.StringKind || fields.Get(j).Cardinality() == protoreflect.Repeated):
					t.Errorf("%s is not one string", name)
				}
				delete(documented, name)
			}
		}
		return true
	})
	for name := range documented {
		t.Errorf("%s is in a proto but not in the linked descriptors", name)
	}
}

var (
	messageLine = regexp.MustCompile(`^message (\w+) \{`)
	fieldLine   = regexp.MustCompile(`^(?:optional |repeated )?[\w.]+(?:<.*>)? (\w+) = \d+`)
)

// documentedIn returns the fields whose comments speak of JSON text.
func documentedIn(proto string) (names []string) {
	message, comment := "", ""
	for line := range strings.Lines(proto) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "//"); ok {
			comment += text
			continue
		}
		if m := messageLine.FindStringSubmatch(line); m != nil {
			message = m[1]
		} else if m := fieldLine.FindStringSubmatch(line); m != nil && strings.Contains(comment, "JSON text") {
			names = append(names, message+"."+m[1])
		}
		comment = ""
	}
	return names
}
