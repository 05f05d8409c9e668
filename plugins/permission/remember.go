package permission

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// Name is the name of the gate, which remembered answers contain. Only this gate uses the answers to its questions.
const Name = "permission"

// Remembered returns the remembered answers that may apply to a call. They have the call's tool digest and principal; they were remembered
// for the namespace, for this run or for this thread; and they have not expired. It must not do I/O. It is called concurrently, for calls
// that would otherwise ask a person.
type Remembered interface {
	// Rules returns shared rules; the gate does not change them.
	Rules(q *call.RuleQuery) []*call.Rule
}

// A Splitter returns the simple commands that a call would run, with their redirections and assignments. known says whether these are the
// whole command.
type Splitter func(tool.Arguments) (parts []Part, known Known)

// Known says how much of a command its parts describe.
type Known int

// The values of Known, in ascending order.
const (
	Unclear Known = iota // the command may do more than its parts: restricting rules match it, granting rules do not
	Open                 // input that the command gets later may do more: granting rules do not match it
	Whole                // the parts are the whole command
)

// A Part is one simple command.
type Part struct {
	Text string
	Also []string // other spellings of the command, for restricting rules
}

// The kinds of options. An option consists of its kind, a space, and a digest or JSON string.
const (
	optionExact   = "exact"   // exactly these arguments
	optionPath    = "path"    // a directory and everything below it
	optionCommand = "command" // simple commands that begin with these words
	optionOrigin  = "origin"  // scheme, host and port of a URL
)

// Options returns the options with which an approval of this call may be remembered, narrowest first. split is the tool's Splitter, or nil
// when its calls are not commands. ESCALATE and DESTRUCTIVE calls have no options, because a person must look at each of them.
func Options(in *hook.Input, split Splitter) []string {
	return optionsOf(in, split, fieldsOf(in.Descriptor))
}

func optionsOf(in *hook.Input, split Splitter, f fields) []string {
	if !rememberable(in.Assessment) {
		return nil
	}
	options := []string{exact(in.Arguments)}
	if dir := directory(in.Arguments.String(f.path)); f.path != "" && dir != "" {
		options = append(options, optionPath+" "+strconv.Quote(dir))
	}
	if split != nil {
		if parts, known := split(in.Arguments); known == Whole && len(parts) == 1 {
			if prefix := commandPrefix(parts[0].Text); prefix != "" {
				options = append(options, optionCommand+" "+strconv.Quote(prefix))
			}
		}
	}
	if at := origin(in.Arguments.String(f.url)); f.url != "" && at != "" {
		options = append(options, optionOrigin+" "+strconv.Quote(at))
	}
	return options
}

// covers reports whether an option covers a whole call. For a command option it returns false; see [begins].
func covers(option string, s *subject, f fields) bool {
	kind, value, ok := cutOption(option)
	if !ok {
		return false
	}
	in := s.in
	switch kind {
	case optionExact:
		return option == exact(in.Arguments)
	case optionPath:
		at := in.Arguments.String(f.path)
		readings := s.formsOf(argPath{{name: f.path}}, at)
		return f.path != "" && plainPath(at) && readings.all(func(p string) bool { return below(value, path.Clean(p)) })
	case optionOrigin:
		return f.url != "" && value != "" && origin(in.Arguments.String(f.url)) == value
	}
	return false
}

// begins reports whether a command option covers one simple command.
func begins(option, part string) bool {
	kind, prefix, ok := cutOption(option)
	return ok && kind == optionCommand && prefix != "" && (part == prefix || strings.HasPrefix(part, prefix+" "))
}

// Title describes for people what remembering an option would allow.
func Title(option string) string {
	kind, value, ok := cutOption(option)
	switch {
	case !ok:
		return option
	case kind == optionExact:
		return "calls with exactly these arguments"
	case kind == optionPath:
		return "calls for anything in " + value
	case kind == optionCommand:
		return fmt.Sprintf("commands that begin with %q", value)
	default:
		return "calls for " + value
	}
}

// rememberedBy returns the ID of a remembered answer that allows the call, which would otherwise need a question, or "". For a compound
// command, each part must be allowed by a rule or a remembered answer.
func (g *Gate) rememberedBy(rules *Rules, c *candidates, s subject, ls *layers, d *decision) string {
	in := s.in
	if !rememberable(in.Assessment) {
		return ""
	}
	kept := g.remembered.Rules(&call.RuleQuery{
		Gate: Name, Namespace: in.Namespace, Principal: in.Caller.Subject, OnBehalfOf: in.OnBehalfOf, Run: in.Run.ID, Thread: in.Run.Thread,
		Tool: in.Descriptor.ID, ToolDigest: in.ToolDigest,
	})
	kept = slices.DeleteFunc(slices.Clone(kept), func(r *call.Rule) bool { return !mayAnswer(r.By, d) })
	if i := slices.IndexFunc(kept, func(r *call.Rule) bool { return covers(r.Option, &s, c.fields) }); i >= 0 {
		return kept[i].ID
	}
	if len(kept) == 0 || g.splitter(in.Descriptor) == nil {
		return ""
	}
	var id string
	for _, s := range g.commandSubjects(s) {
		one := rules.decide(c, &s, ls)
		i := slices.IndexFunc(kept, func(r *call.Rule) bool { return s.hasPart && s.understood && begins(r.Option, s.part.Text) })
		switch {
		case one.action == allow:
		case one.action == ask && one.alone() && i >= 0:
			id = kept[i].ID
		default:
			return ""
		}
	}
	return id
}

func cutOption(option string) (kind, value string, ok bool) {
	kind, rest, _ := strings.Cut(option, " ")
	switch kind {
	case optionExact:
		return kind, rest, rest != ""
	case optionPath, optionCommand, optionOrigin:
		value, err := strconv.Unquote(rest)
		return kind, value, err == nil && value != ""
	}
	return "", "", false
}

// rememberable reports whether an approval of such a call may be remembered.
func rememberable(e tool.Effects) bool {
	e = e.Normal()
	return (e.Tier == tool.Observe || e.Tier == tool.Confirm) &&
		(e.Safety == tool.SafetyReadOnly || e.Safety == tool.SafetyMutating || e.Safety == tool.SafetyNetwork)
}

func exact(args tool.Arguments) string {
	canonical := call.AppendCanonical([]byte("toold.remember.v1"), args.Value())
	sum := sha256.Sum256(canonical)
	return optionExact + " sha256:" + hex.EncodeToString(sum[:])
}

// directory returns the directory of a path. It is "" when remembering it would allow everything, or when the path contains "..".
func directory(p string) string {
	if !plainPath(p) {
		return ""
	}
	dir := path.Dir(path.Clean(p))
	if dir == "." || dir == "/" {
		return ""
	}
	return dir
}

// plainPath reports whether a path contains no element such as ".." that hides where the path leads.
func plainPath(p string) bool {
	return p != "" && !strings.ContainsAny(p, "\\\x00") && !slices.Contains(strings.Split(p, "/"), "..")
}

func below(dir, p string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// origin returns scheme, host and port of a URL, without a default port. It is "" for other texts and for URLs with a user name.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Hostname() == "" || u.Opaque != "" {
		return ""
	}
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if scheme != "http" && scheme != "https" {
		return ""
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		return scheme + "://" + host
	}
	return scheme + "://" + host + ":" + port
}
