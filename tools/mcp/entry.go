package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/toold-dev/toold/sandbox"
)

// An Entry is one server.
type Entry struct {
	Key string // of the file; begins the ids of its tools

	// Command with Args is a server that is started, in Dir with Env (NAME=value).
	Command string
	Args    []string
	Env     []string
	Dir     string
	// Within is the workspace that Dir is in: callers may write there, and no symbolic link leads the server out of it. Empty: callers
	// cannot change where Dir leads.
	Within string

	// URL is a server that is reached over HTTP, with Headers on each request. Events says that it speaks the two
	// endpoints of 2024-11-05.
	URL     string
	Headers map[string]string
	Events  bool
	// Client is whom a server's authorization server knows the daemon as; nil: it makes itself known.
	Client *Client

	// Policy isolates the process; nil: it has all rights of the daemon. The calls of its tools are refused where this
	// machine does not give what it asks for.
	Policy *sandbox.Policy

	Trust Trust
	// OnCancel says what happens to a server process that does not stop a cancelled call.
	OnCancel OnCancel
	// Tools are globs of the server's own names; none: all.
	Tools []string

	// In is the entry for namespaces whose process works in another workspace, by namespace. Each has a process of its own, which
	// starts with the first call; the entry itself says what the tools are. None: one process serves all namespaces.
	In map[string]Entry
}

// Trust is how far the hints of a server count.
type Trust string

// Hints that make a tool stricter always count.
const (
	TrustNone  Trust = ""      // every tool may change anything
	TrustHints Trust = "hints" // a tool that says that it only reads is READ_ONLY; a person is still asked
	TrustFull  Trust = "full"  // it is also OBSERVE
)

// OnCancel says what happens to a server's process when the server does not answer the cancel of a call.
type OnCancel string

// The other calls that the process runs end with CONNECTION_LOST when it is restarted.
const (
	CancelByTrust  OnCancel = ""        // restart with TrustNone, else leave
	CancelRestarts OnCancel = "restart" // all its processes are killed, and it is started again
	CancelLeaves   OnCancel = "leave"   // it continues, and the outcome of the call is unknown
)

// restarts reports whether a server that does not stop a cancelled call is restarted.
func (e *Entry) restarts() bool {
	return e.OnCancel == CancelRestarts || e.OnCancel == CancelByTrust && e.Trust == TrustNone
}

// Variables is what a file may refer to.
type Variables struct {
	Environment func(name string) (string, bool) // ${env:NAME}, and ${input:id} as MCP_INPUT_ID
	Home        string                           // ${userHome}
	Workspace   string                           // ${workspaceFolder}
}

// rawEntry is what the clients have in common; what they have beside it is left alone.
type rawEntry struct {
	Type     string            `json:"type"`
	Command  string            `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]any    `json:"env"`
	EnvFile  string            `json:"envFile"`
	Dir      string            `json:"cwd"`
	URL      string            `json:"url"`
	Server   string            `json:"serverUrl"`
	HTTPURL  string            `json:"httpUrl"`
	Headers  map[string]string `json:"headers"`
	Disabled bool              `json:"disabled"`
	Auth     *struct {
		ID     string   `json:"CLIENT_ID"`
		Secret string   `json:"CLIENT_SECRET"`
		Scopes []string `json:"scopes"`
	} `json:"auth"` // Cursor
}

// Parse reads an mcpServers file: {"mcpServers": {…}} of Claude Desktop and Cursor, {"servers": {…}} of VS Code, whose
// comments and trailing commas are taken too. The entries are sorted by key; those that are disabled are left out.
func Parse(text []byte, vars Variables) ([]Entry, error) {
	var file struct {
		Desktop map[string]rawEntry `json:"mcpServers"`
		Code    map[string]rawEntry `json:"servers"`
	}
	if err := json.Unmarshal(plainJSON(text), &file); err != nil {
		return nil, fmt.Errorf("not the JSON of an mcpServers file: %w", err)
	}
	if file.Desktop == nil && file.Code == nil {
		return nil, errors.New(`has neither "mcpServers" nor "servers"`)
	}
	raw := file.Desktop
	if raw == nil {
		raw = map[string]rawEntry{}
	}
	maps.Copy(raw, file.Code)
	var entries []Entry
	var wrong []error
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		r := raw[key]
		if r.Disabled {
			continue
		}
		e, err := r.entry(key, vars)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("server %q: %w", key, err))
			continue
		}
		entries = append(entries, e)
	}
	return entries, errors.Join(wrong...)
}

func (r *rawEntry) entry(key string, vars Variables) (Entry, error) {
	e := Entry{Key: key, Command: r.Command, Args: r.Args, Dir: r.Dir, URL: r.URL + r.Server + r.HTTPURL, Headers: r.Headers}
	if r.Auth != nil && r.Auth.ID != "" {
		e.Client = &Client{r.Auth.ID, r.Auth.Secret, r.Auth.Scopes}
	}
	if r.EnvFile != "" {
		return e, errors.New("envFile is not read: set env, or ${env:NAME} for what the daemon has")
	}
	switch r.Type {
	case "", "stdio", "http", "streamable-http", "streamableHttp":
	case "sse":
		e.Events = true
	default:
		return e, fmt.Errorf("type %q is not stdio, http or sse", r.Type)
	}
	if (e.Command == "") == (e.URL == "") {
		return e, errors.New("want either a command or a url")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		value := r.Env[name]
		if value == nil {
			continue // VS Code: unset
		}
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return e, fmt.Errorf("env has the name %q", name)
		}
		e.Env = append(e.Env, name+"="+fmt.Sprint(value))
	}
	if err := e.expand(vars); err != nil {
		return e, err
	}
	return e, e.check()
}

// expand puts in what the texts refer to.
func (e *Entry) expand(vars Variables) error {
	var missing []string
	replace := func(s *string) { *s = vars.replace(*s, &missing) }
	e.Args = slices.Clone(e.Args)
	e.Headers = maps.Clone(e.Headers)
	replace(&e.Command)
	replace(&e.Dir)
	replace(&e.URL)
	if e.Client != nil {
		replace(&e.Client.ID)
		replace(&e.Client.Secret)
	}
	for i := range e.Args {
		replace(&e.Args[i])
	}
	for i := range e.Env {
		replace(&e.Env[i])
	}
	for name, value := range e.Headers {
		replace(&value)
		e.Headers[name] = value
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("nothing is known of %s", strings.Join(slices.Compact(missing), ", "))
	}
	return nil
}

// replace returns s with the references of editors replaced; a "${" of anything else stays.
func (v *Variables) replace(s string, missing *[]string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		name, after, closed := strings.Cut(rest, "}")
		b.WriteString(before)
		if !ok || !closed {
			if ok {
				b.WriteString("${" + rest)
			}
			return b.String()
		}
		value, known, ours := v.lookup(name)
		switch {
		case !ours:
			b.WriteString("${" + name + "}")
		case !known:
			*missing = append(*missing, "${"+name+"}")
		default:
			b.WriteString(value)
		}
		s = after
	}
}

func (v *Variables) lookup(name string) (value string, known, ours bool) {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case "env":
		value, known = v.environment(rest)
		return value, known, true
	case "input": // an editor asks for it; a daemon has nobody to ask
		value, known = v.environment("MCP_INPUT_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_", " ", "_").Replace(rest)))
		return value, known, true
	case "userHome":
		return v.Home, v.Home != "", true
	case "workspaceFolder", "workspaceRoot":
		return v.Workspace, v.Workspace != "", true
	case "pathSeparator", "/":
		return "/", true, true
	}
	return "", false, false
}

func (v *Variables) environment(name string) (string, bool) {
	if v.Environment == nil {
		return "", false
	}
	return v.Environment(name)
}

func (e *Entry) check() error {
	if prefix(e.Key) == "" {
		return errors.New("a server needs a key with letters or digits")
	}
	for _, text := range append([]string{e.Command, e.Dir}, append(slices.Clone(e.Args), e.Env...)...) {
		if strings.ContainsRune(text, 0) {
			return errors.New("holds a NUL")
		}
	}
	if e.URL == "" {
		return nil
	}
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("url is not one of http or https")
	}
	if u.User != nil {
		return errors.New("url holds a password: use headers")
	}
	for name, value := range e.Headers {
		if name == "" || strings.ContainsAny(name+value, "\r\n\x00") {
			return fmt.Errorf("header %q is none", name)
		}
	}
	return nil
}

// Plain reports whether everybody between can read what is said to the server.
func (e *Entry) Plain() bool {
	u, err := url.Parse(e.URL)
	return err == nil && u.Scheme == "http" && !loopback(u.Hostname())
}

// plainJSON takes comments and trailing commas out, as VS Code writes them. What is in strings stays; positions too.
func plainJSON(text []byte) []byte {
	out := slices.Clone(text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	comma := -1 // the last one that nothing but space follows
	for i := 0; i < len(out); {
		rest := out[i:]
		switch {
		case rest[0] == '"':
			comma = -1
			i += stringLength(rest)
			continue
		case len(rest) > 1 && rest[0] == '/' && rest[1] == '/':
			end := i
			for end < len(out) && out[end] != '\n' {
				end++
			}
			blank(i, end)
			i = end
			continue
		case len(rest) > 1 && rest[0] == '/' && rest[1] == '*':
			end := strings.Index(string(rest[2:]), "*/")
			if end < 0 {
				return out
			}
			blank(i, i+end+4)
			i += end + 4
			continue
		case rest[0] == ',':
			comma = i
		case rest[0] == '}' || rest[0] == ']':
			if comma >= 0 {
				blank(comma, comma+1)
			}
			comma = -1
		case !strings.ContainsRune(" \t\r\n", rune(rest[0])):
			comma = -1
		}
		i++
	}
	return out
}

// stringLength is the length of the JSON string that text begins with.
func stringLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
