package redact_test

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/toold-dev/toold/plugins/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRedactor(t testing.TB, cfg redact.Config) *redact.Redactor {
	t.Helper()
	r, err := redact.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const secret = `hunter2-"/+ <ü>&'$`

func known(t testing.TB) *redact.Redactor {
	return newRedactor(t, redact.Config{Values: []redact.Value{{Name: "db", Text: secret}, {Text: "correct-horse"}}})
}

// T79: a value is found in all its common forms.
func TestForms(t *testing.T) {
	quoted := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Trim(string(b), `"`)
	}
	forms := map[string]string{
		"as it is":            secret,
		"JSON":                strings.ReplaceAll(strings.ReplaceAll(secret, `\`, `\\`), `"`, `\"`),
		"JSON of Go":          quoted(secret),
		"JSON in JSON":        quoted(quoted(secret)),
		"JSON of PHP":         strings.ReplaceAll(strings.ReplaceAll(secret, `"`, `\"`), "/", `\/`),
		"query":               url.QueryEscape(secret),
		"path":                url.PathEscape(secret),
		"query in lower case": strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(secret), "%2F", "%2f"), "%2B", "%2b"), "%3C%C3%BC%3E", "%3c%c3%bc%3e"),
		"hex":                 hex.EncodeToString([]byte(secret)),
		"HEX":                 strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"JSON in ASCII":       strings.ReplaceAll(strings.ReplaceAll(secret, `"`, `\"`), "ü", `\u00fc`),
		"URL of jq":           `hunter2-%22%2F%2B%20%3C%C3%BC%3E%26%27%24`,
		"URL of Python":       `hunter2-%22/%2B%20%3C%C3%BC%3E%26%27%24`,
		"URL of JavaScript":   `hunter2-%22%2F%2B%20%3C%C3%BC%3E%26'%24`,
		"whole URL":           `hunter2-%22/+%20%3C%C3%BC%3E&'$`,
		"export -p":           `hunter2-\"/+ <ü>&'\$`,
		"quotes of a shell":   `hunter2-"/+ <ü>&'\''$`,
		"quotes of Python":    `hunter2-"/+ <ü>&'"'"'$`,
		"printf %q":           `hunter2-\"/+\ \<ü\>\&\'\$`,
		"HTML":                `hunter2-&#34;/+ &lt;ü&gt;&amp;&#39;$`,
		"XML":                 `hunter2-&quot;/+ &lt;ü&gt;&amp;&apos;$`,
		"base32":              base32.StdEncoding.EncodeToString([]byte(secret)),
		"base64":              base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 for URLs":     base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	r := known(t)
	for name, form := range forms {
		got := r.Text("before " + form + " after")
		if !strings.HasPrefix(got, "before [redacted:db]") || !strings.HasSuffix(got, " after") || len(got) > len("before [redacted:db]xx====== after") {
			t.Errorf("%s: %q became %q", name, form, got)
		}
	}
	// The value is inside of a longer encoded text, at each possible offset in a group of bytes.
	for shift := range 6 {
		whole := strings.Repeat("x", shift) + secret + "yyy"
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			got := r.Text(enc.EncodeToString([]byte(whole)))
			if !strings.Contains(got, "[redacted:db]") {
				t.Errorf("behind %d bytes: %q", shift, got)
			}
		}
	}
}

// The test checks that a value is found in encodings with line breaks, wherever a line ends. Up to three characters before the first line
// end may remain (T121).
func TestT121EncodingsInLines(t *testing.T) {
	long := strings.Repeat("s3cr3t-", 14) + "ab"
	r := newRedactor(t, redact.Config{Values: []redact.Value{{Name: "long", Text: long}, {Name: "db", Text: secret}}})
	for _, value := range []string{long, secret} {
		for before := range 60 {
			plain := []byte(strings.Repeat("x", before) + value + "yyy")
			for name, text := range map[string]string{
				"base64": base64.StdEncoding.EncodeToString(plain), "hex": hex.EncodeToString(plain), "HEX": strings.ToUpper(hex.EncodeToString(plain)),
				"base32": base32.StdEncoding.EncodeToString(plain),
			} {
				for _, width := range []int{4, 60, 64, 76} { // widths of the lines that xxd -p, openssl base64 and base64 print, and a very short one
					for _, end := range []string{"\n", "\r\n", "\n  "} {
						lines := strings.Join(chunk(text, width), end)
						got := inChunks(r, lines, func() int { return 7 })
						taken := 2*len(value) - 3
						switch name { // The first and the last character also encode bytes beside the value.
						case "base64":
							taken = len(value)*8/6 - 2 - 3
						case "base32":
							taken = len(value)*8/5 - 2 - 3
						}
						if !strings.Contains(got, "[redacted:") || len(got) > len(lines)-taken+len("[redacted:long]") {
							t.Fatalf("%s behind %d bytes in lines of %d: %q became %q", name, before, width, lines, got)
						}
					}
				}
			}
		}
	}
	// A finished line must be published at once, even when its last character could begin a value.
	s := r.Stream()
	for _, line := range []string{"done 7\n", "c\n", "cz\n"} {
		if got := string(s.Next([]byte(line))); got != line {
			t.Errorf("of %q came %q", line, got)
		}
	}
}

func chunk(s string, n int) (parts []string) {
	for ; len(s) > n; s = s[n:] {
		parts = append(parts, s[:n])
	}
	return append(parts, s)
}

func TestText(t *testing.T) {
	r := newRedactor(t, redact.Config{
		Values:   []redact.Value{{Name: "a", Text: "abcdefghij"}, {Name: "b", Text: "hijklmnop"}, {Name: "long", Text: "abcdefghijXYZ"}},
		Patterns: []redact.Pattern{{Name: "card", Expr: `\b\d{4} \d{4} \d{4} \d{4}\b`}},
	})
	tests := []struct{ in, want string }{
		{"", ""},
		{"nothing here", "nothing here"},
		{"abcdefghij", "[redacted:a]"},
		{"xabcdefghijx", "x[redacted:a]x"},
		{"abcdefghijabcdefghij", "[redacted:a][redacted:a]"},
		{"abcdefghijklmnop", "[redacted:a]"},   // overlapping secrets are both removed
		{"abcdefghijXYZ!", "[redacted:long]!"}, // Of two secrets at the same position, the longer one counts.
		{"abcdefghi", "abcdefghi"},
		{"ab\xffcdefghij\xfe", "ab\xffcdefghij\xfe"},
		{"1234 5678 9012 3456", "[redacted:card]"},
		{"1234 5678\n9012 3456", "1234 5678\n9012 3456"}, // a pattern matches only within a line
	}
	for _, tt := range tests {
		if got := r.Text(tt.in); got != tt.want {
			t.Errorf("%q became %q, want %q", tt.in, got, tt.want)
		}
	}
}

// tokens assembles tokens from parts, so that secret scanners do not report the source.
func tokens() map[string]string {
	long := strings.Repeat("aB3dE5fG7h", 10)
	return map[string]string{
		"aws": "AKIA" + "IOSFODNN7EXAMPLE", "github": "ghp" + "_" + long[:36], "gitlab": "glpat" + "-" + long[:20],
		"slack": "xoxb" + "-123456789012-" + long[:24], "anthropic": "sk" + "-ant-api03-" + long[:60], "openai": "sk" + "-proj-" + long[:48],
		"google": "AIza" + long[:35], "stripe": "sk" + "_live_" + long[:24], "npm": "npm" + "_" + long[:36], "huggingface": "hf" + "_" + long[:34],
		"pypi": "pypi" + "-" + long[:80], "toold": "toold" + "_token_" + long[:43],
		"jwt": "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0." + long[:43],
		"private-key": "-----BEGIN RSA PRIVATE" + " KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + long + "\n" + long[:30] + "==\n-----END RSA PRIVATE" +
			" KEY-----",
	}
}

func TestTokens(t *testing.T) {
	r := newRedactor(t, redact.Config{Tokens: true})
	for name, token := range tokens() {
		want := "[redacted:" + name + "]"
		for _, around := range [][2]string{{"", ""}, {"key: ", "\nnext line"}, {`{"key":"`, `"}`}, {"é", "é"}, {"(", ")"}} {
			if got := r.Text(around[0] + token + around[1]); got != around[0]+want+around[1] {
				t.Errorf("%s in %q became %q", name, around, got)
			}
		}
	}
	escaped := strings.ReplaceAll(tokens()["private-key"], "\n", `\n`)
	if got := r.Text(`{"key":"` + escaped + `\n"}`); got != `{"key":"[redacted:private-key]\n"}` {
		t.Errorf("a key in JSON became %q", got)
	}
	for in, want := range map[string]string{
		"Authorization: Bearer 0123456789abcdef.xyz":                       "Authorization: Bearer [redacted:bearer]",
		`{"authorization":"bearer 0123456789abcdefghij"}`:                  `{"authorization":"bearer [redacted:bearer]"}`,
		"authorization: Basic dXNlcjpwYXNz":                                "authorization: Basic [redacted:basic]",
		`{"Authorization": "Basic dXNlcjpwYXNz"}`:                          `{"Authorization": "Basic [redacted:basic]"}`,
		"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "aws_secret_access_key = [redacted:aws]",
		`AWS_SECRET_ACCESS_KEY="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"`: `AWS_SECRET_ACCESS_KEY="[redacted:aws]"`,
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
	for _, innocent := range []string{
		"the bearer of bad news, a bearer token", "Basic usage: see below", "task-" + strings.Repeat("word-", 10), "risk-averse-and-very-long-words-in-a-row-here",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "eyJhbGciOiJIUzI1NiJ9", "eyJ.eyJ", "AKIA is a prefix", "ghp_short", "BAKIA0123456789ABCDEF",
		"3f786850e387550fdab836ed7e6dc881de23001b", "-----BEGIN ", "https://hooks.slack.com/services/",
	} {
		if got := r.Text(innocent); got != innocent {
			t.Errorf("%q became %q", innocent, got)
		}
	}
}

func TestJSON(t *testing.T) {
	r := newRedactor(t, redact.Config{
		Values: []redact.Value{{Name: "db", Text: secret}, {Name: "pin", Text: "12345678"}, {Name: "account", Text: `{"id":"x","key":"y"}`}}, Tokens: true,
	})
	tests := []struct{ in, want string }{
		{`{"a":1}`, `{"a":1}`},
		{`{ "a" : "\u0068unter2-\u0022/+ \u003c\u00fc\u003e&'$!" }`, `{ "a" : "[redacted:db]!" }`}, // any spelling of a JSON string is recognized
		{`{"hunter2-\"/+ <ü>&'$":true}`, `{"[redacted:db]":true}`},
		{`{"pin":12345678,"n":[1,-2.5e3]}`, `{"pin":"[redacted:pin]","n":[1,-2.5e3]}`}, // The number becomes a string, so that the text is still JSON.
		{`[{"id":"x","key":"y"}]`, `"[[redacted:account]]"`},
		{`{"authorization":"Basic dXNlcjpwYXNz","b":"\n"}`, `{"authorization":"Basic [redacted:basic]","b":"\n"}`},
		{`"a\nb"`, `"a\nb"`},
		{``, ``},
	}
	for _, tt := range tests {
		got := r.JSON(tt.in)
		if got != tt.want || got != "" && !json.Valid([]byte(got)) {
			t.Errorf("%s became %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []redact.Config{
		{Values: []redact.Value{{Text: "short"}}},
		{Values: []redact.Value{{Text: strings.Repeat("x", redact.MaxValue+1)}}},
		{Values: []redact.Value{{Name: "a b", Text: "long-enough"}}},
		{Values: []redact.Value{{Text: "x[redacted]x"}}},
		{Patterns: []redact.Pattern{{Expr: "("}}},
		{Patterns: []redact.Pattern{{Expr: "(?=x)"}}},
		{Patterns: []redact.Pattern{{Expr: "a*"}}},
		{Patterns: []redact.Pattern{{Name: "]", Expr: "a"}}},
	} {
		if _, err := redact.New(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		} else if len(cfg.Values) > 0 && strings.Contains(err.Error(), cfg.Values[0].Text) {
			t.Errorf("the error tells the value: %v", err)
		}
	}
}

// inChunks passes a text through a stream, in chunks of the sizes that size returns.
func inChunks(r *redact.Redactor, text string, size func() int) string {
	s := r.Stream()
	var out strings.Builder
	for len(text) > 0 {
		n := min(max(size(), 0), len(text))
		chunk := []byte(text[:n])
		out.Write(s.Next(chunk))
		clear(chunk) // Clearing the chunk shows whether the stream keeps it, which is forbidden.
		text = text[n:]
	}
	out.Write(s.End())
	return out.String()
}

// TestChunks checks that the output does not depend on the chunks: the secret is removed, and everything else is kept.
func TestChunks(t *testing.T) {
	values := []string{"correct-horse", secret, "aaaaaaaaaaaa", "abababab", "abababac", "zw\u00f6lf-b\u00e4ren"}
	cfg := redact.Config{Tokens: true, Patterns: []redact.Pattern{{Name: "pin", Expr: `pin=\d+`}}}
	for i, v := range values {
		cfg.Values = append(cfg.Values, redact.Value{Name: fmt.Sprint("v", i), Text: v})
	}
	r := newRedactor(t, cfg)
	pieces := []string{"\n", " ", "plain text ", "ä€😀", "pin=12345", "a", "ab", "correct-", "hunter2", "-----", "ey", "J", "sk-", "Bearer ", "0123456789abcdef"}
	pieces = append(pieces, values...)
	for _, v := range values {
		encoded := base64.StdEncoding.EncodeToString([]byte(v))
		pieces = append(pieces, encoded[:6]+"\n"+encoded[6:], encoded[:5], hex.EncodeToString([]byte(v))[:8]+"\r\n")
	}
	for _, token := range tokens() {
		pieces = append(pieces, token, token[:len(token)/2])
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "pieces"), rapid.SampledFrom([]string{"", " ", "|"}).Draw(t, "between"))
		whole := r.Text(text)
		got := inChunks(r, text, func() int { return rapid.IntRange(0, 40).Draw(t, "chunk") })
		if got != whole {
			t.Fatalf("%q in chunks became %q, whole %q", text, got, whole)
		}
		for _, v := range values {
			if strings.Contains(got, v) {
				t.Fatalf("%q is left in %q", v, got)
			}
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
	})
}

// The text between known secrets stays unchanged.
func TestNothingElseIsChanged(t *testing.T) {
	r := known(t)
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringOf(rapid.RuneFrom([]rune("xyz ,.\n\"\\äé0123456789[]"))), 1, 8).Draw(t, "parts")
		want := strings.Join(parts, "[redacted]")
		got := inChunks(r, strings.Join(parts, "correct-horse"), func() int { return rapid.IntRange(0, 9).Draw(t, "chunk") })
		if got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

// The test checks that the size of the retained text is limited, and that the end of the stream returns that text.
func TestKeepsLittleBack(t *testing.T) {
	r := newRedactor(t, redact.Config{Values: []redact.Value{{Text: strings.Repeat("ab", 4000)}}, Tokens: true, Patterns: []redact.Pattern{{Expr: `x\d`}}})
	s := r.Stream()
	in, out := 0, 0
	for _, chunk := range []string{"ab", "-----BEGIN RSA", " eyJ", "sk-", "no line ends here "} {
		for range 5000 {
			in += len(chunk)
			out += len(s.Next([]byte(chunk)))
			if in-out > 64<<10 {
				t.Fatalf("%d bytes are kept back", in-out)
			}
		}
		s.End()
		in, out = 0, 0
	}
	plain := newRedactor(t, redact.Config{Values: []redact.Value{{Text: "correct-horse"}}}).Stream()
	if got := string(plain.Next([]byte("Password: "))); got != "Password: " {
		t.Errorf("a prompt waits: %q", got)
	}
	if got := string(plain.Next([]byte("cor"))); got != "" {
		t.Errorf("the beginning of a secret is published: %q", got)
	}
	if got := string(plain.End()); got != "cor" {
		t.Errorf("what was no secret is lost: %q", got)
	}
}

func FuzzStream(f *testing.F) {
	for _, token := range tokens() {
		f.Add("x "+token+" y", uint8(3))
	}
	f.Add(secret+secret, uint8(1))
	f.Add("pin=1\npin=22", uint8(2))
	f.Add("Y29ycmVj\r\n dC1ob3JzZQ==\n636f\n7272", uint8(3))
	f.Add(strings.Repeat("ab", 40)+"\xff", uint8(5))
	r := newRedactor(f, redact.Config{
		Values: []redact.Value{{Text: secret}, {Text: "correct-horse"}, {Text: "abababab"}}, Tokens: true, Patterns: []redact.Pattern{{Expr: `pin=\d+`}},
	})
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		whole := r.Text(text)
		if got := inChunks(r, text, func() int { return int(size) + 1 }); got != whole {
			t.Errorf("%q in chunks of %d became %q, whole %q", text, int(size)+1, got, whole)
		}
		for _, v := range []string{secret, "correct-horse", "abababab"} {
			if strings.Contains(whole, v) {
				t.Errorf("%q is left in %q", v, whole)
			}
		}
		if json.Valid([]byte(text)) && !json.Valid([]byte(r.JSON(text))) {
			t.Errorf("%s became %s, which is not JSON", text, r.JSON(text))
		}
	})
}

func BenchmarkStream(b *testing.B) {
	values := make([]redact.Value, 50)
	for i := range values {
		values[i].Text = fmt.Sprintf("secret-value-%d-%x", i, i*7919)
	}
	text := []byte(strings.Repeat("2026-01-02T03:04:05Z INFO handled request path=/api/v1/items status=200 bytes=5120 in 3.2ms\n", 700))
	for name, cfg := range map[string]redact.Config{
		"values": {Values: values}, "tokens": {Tokens: true}, "both": {Values: values, Tokens: true},
		"pattern": {Patterns: []redact.Pattern{{Expr: `\b\d{4} \d{4} \d{4} \d{4}\b`}}},
	} {
		b.Run(name, func(b *testing.B) {
			s := newRedactor(b, cfg).Stream()
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				s.Next(text)
			}
		})
	}
}
