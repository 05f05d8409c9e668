package call_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
)

// tenProperties has the arguments of the speed measurements: 200 bytes, ten properties.
const tenProperties = `{"path":"src/server/handler.go","pattern":"func [A-Z]","limit":100,"offset":2500,"recursive":true,` +
	`"follow":false,"encoding":"utf-8","mode":"content","glob":["*.go","*.proto"],"context":3,"x":0.5}`

func BenchmarkParseJSON(b *testing.B) {
	texts := []struct{ name, text string }{
		{"ten", tenProperties},
		{"escapes", `{"old":"` + strings.Repeat(`a line of text\n`, 4096) + `"}`},
		{"plain", `{"content":"` + strings.Repeat("a line of text ", 4096) + `"}`},
		{"numbers", "[" + strings.Repeat("12345,", 10000) + "0]"},
	}
	for _, t := range texts {
		b.Run(t.name, func(b *testing.B) {
			b.SetBytes(int64(len(t.text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := call.ParseJSON(t.text, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEncodingJSON measures encoding/json, for comparison with the strict parser.
func BenchmarkEncodingJSON(b *testing.B) {
	b.SetBytes(int64(len(tenProperties)))
	b.ReportAllocs()
	for b.Loop() {
		d := json.NewDecoder(strings.NewReader(tenProperties))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendCanonical(b *testing.B) {
	v, err := call.ParseJSON(tenProperties, 0)
	if err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = call.AppendCanonical(dst[:0], v)
	}
}

// BenchmarkParse measures the cost for each call: the value and its canonical form.
func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := call.Parse(tenProperties).Arguments(0); err != nil {
			b.Fatal(err)
		}
	}
}
