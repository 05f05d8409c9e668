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

// An Entry describes one server.
type Entry struct {
	Key string // key in the file; the ids of the server's tools begin with it

	// Command and Args start a server process, in Dir with Env (NAME=value).
	Command string
	Args    []string
	Env     []string
	Dir     string
	// Within is the workspace that contains Dir. Callers may write in this workspace, so a symbolic link in it must not lead the server out
	// of the workspace. Empty means that callers cannot change the path Dir.
	Within string

	// URL is the address of a server over HTTP. Headers are sent with each request. Events means that the server uses the transport of
	// protocol version 2024-11-05, with two endpoints.
	URL     string
	Headers map[string]string
	Events  bool
	// Client is the daemon's registration at the server's authorization server. Nil means that the daemon registers itself.
	Client *Client

	// Policy isolates the process. Nil means that the process has all rights of the daemon. On a machine that cannot isolate the process in
	// this way, calls of its tools are refused.
	Policy *sandbox.Policy

	Trust Trust
	// OnCancel says what happens to a server process that does not stop a cancelled call.
	OnCancel OnCancel
	// Tools are globs for the server's own tool names, without the prefix. Nil means all tools.
	Tools []string

	// In contains, by namespace, the entries for namespaces with a separate workspace. Each of these namespaces has its own process, which
	// starts with its first call. The list of tools always comes from the process of the entry itself. Nil means that one process serves
	// all namespaces.
	In map[string]Entry
}

// Trust says how far the hints of a server count.
type Trust string

// The levels of trust. On every level, hints that make a tool stricter count.
const (
	TrustNone  Trust = ""      // hints that make a tool milder are ignored, so every tool counts as one that may change anything
	TrustHints Trust = "hints" // a tool with a read-only hint is READ_ONLY, but still needs consent
	TrustFull  Trust = "full"  // a tool with a read-only hint is READ_ONLY and has the tier OBSERVE
)

// OnCancel says what happens to a server's process when the server does not stop a cancelled call.
type OnCancel string

// The reactions. A restart makes the other calls of the process fail with CONNECTION_LOST.
const (
	CancelByTrust  OnCancel = ""        // the same as CancelRestarts for TrustNone, and as CancelLeaves for other levels of trust
	CancelRestarts OnCancel = "restart" // kill all processes of the server, and start it again
	CancelLeaves   OnCancel = "leave"   // let the server continue; the outcome of the call is unknown
)

// restarts reports whether a server is restarted when it does not stop a cancelled call.
func (e *Entry) restarts() bool {
	return e.OnCancel == CancelRestarts || e.OnCancel == CancelByTrust && e.Trust == TrustNone
}

// Variables are the values for references in a file.
type Variables struct {
	Environment func(name string) (string, bool) // value of ${env:NAME}; for ${input:id}, the name is MCP_INPUT_ID
	Home        string                           // value of ${userHome}
	Workspace   string                           // value of ${workspaceFolder}
}

// rawEntry has the fields of a file that are common to several clients. Other fields are ignored.
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
	} `json:"auth"` // a field of Cursor
}

// Parse reads an mcpServers file. The format is {"mcpServers": {…}}, as in Claude Desktop and Cursor, or {"servers": {…}}, as in VS
// Code, with comments and trailing commas. Parse returns the entries sorted by key, without the disabled ones.
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
		return e, errors.New("envFile is not supported: set env, or use ${env:NAME} for variables of the daemon")
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
			continue // In VS Code, null means that the variable is not set.
		}
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return e, fmt.Errorf("env has the invalid name %q", name)
		}
		e.Env = append(e.Env, name+"="+fmt.Sprint(value))
	}
	if err := e.expand(vars); err != nil {
		return e, err
	}
	return e, e.check()
}

// expand replaces the references in all texts of the entry.
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
		return fmt.Errorf("unknown variables: %s", strings.Join(slices.Compact(missing), ", "))
	}
	return nil
}

// replace replaces the references that editors use, such as ${env:NAME}. It leaves any other "${" unchanged.
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
	case "input": // An editor would ask its user for this value. A daemon has no user, so the value comes from an environment variable.
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
		return errors.New("the key of a server must contain letters or digits")
	}
	for _, text := range append([]string{e.Command, e.Dir}, append(slices.Clone(e.Args), e.Env...)...) {
		if strings.ContainsRune(text, 0) {
			return errors.New("contains a NUL")
		}
	}
	if e.URL == "" {
		return nil
	}
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("url is not an http or https URL")
	}
	if u.User != nil {
		return errors.New("url contains a user or password: use headers")
	}
	for name, value := range e.Headers {
		if name == "" || strings.ContainsAny(name+value, "\r\n\x00") {
			return fmt.Errorf("header %q is not a valid name", name)
		}
	}
	return nil
}

// Plain reports whether the daemon sends messages to the server unencrypted over the network.
func (e *Entry) Plain() bool {
	u, err := url.Parse(e.URL)
	return err == nil && u.Scheme == "http" && !loopback(u.Hostname())
}

// plainJSON replaces comments and trailing commas, which VS Code permits, by spaces. Strings and positions stay the same.
func plainJSON(text []byte) []byte {
	out := slices.Clone(text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	comma := -1 // position of the last comma that only space and comments follow
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

// stringLength returns the length of the JSON string at the beginning of text.
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
