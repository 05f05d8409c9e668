package command

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// A scripted is the tool that a manifest describes.
type scripted struct {
	cfg        *Config
	m          *Manifest
	at         *reader // contains the positions in the manifest, for error messages
	key        string  // hash of the manifest and everything it depends on; two tools with the same key behave the same
	descriptor tool.Descriptor
	defaults   map[string]any
	title      template
	program    string // absolute path of the program
	workspace  string
	dir        string // directory where the program starts, in the workspace
	pins       []*pin
	policy     *sandbox.Policy
	pool       *pool                // nil when the program is not persistent
	own        map[string]*scripted // variants of the tool for namespaces with a separate workspace, by namespace
}

func (r *reader) problem(path, format string, args ...any) error {
	r.problems = nil
	r.wrong(path, format, args...)
	return r.problems[0]
}

// newScripted makes the tool of a checked manifest on this machine. It records problems in r.
func newScripted(cfg *Config, m *Manifest, r *reader) *scripted {
	p := &m.Run
	p.Profile = cmp.Or(p.Profile, DefaultProfile)
	p.Grace = cmp.Or(p.Grace, defaultGrace)
	p.Limits.Output = cmp.Or(p.Limits.Output, defaultOutput)
	p.Output = cmp.Or(p.Output, outputText)
	if len(p.ExitCodes) == 0 {
		p.ExitCodes = []int{0}
	}
	t := &scripted{cfg: cfg, m: m, at: r, defaults: map[string]any{}}
	t.title, _ = parseTemplate(m.Title, "title") // check has already reported an error in the title.
	for name, param := range m.parameters(r) {
		if param.preset != nil {
			t.defaults[name] = param.preset
		}
	}
	if len(p.Secrets) > 0 && cfg.Secrets == nil {
		r.wrong("run.secrets", "no secrets are configured")
	}
	t.findFiles(r)
	t.settle(cfg.Workspace, r)
	if len(r.problems) == 0 {
		t.describeTool(r)
	}
	t.own = map[string]*scripted{}
	for _, namespace := range slices.Sorted(maps.Keys(cfg.Workspaces)) {
		own := *t
		own.settle(cfg.Workspaces[namespace], r)
		t.own[namespace] = &own
	}
	return t
}

// settle sets the workspace that the program sees, and the directory in it where the program starts.
func (t *scripted) settle(workspace string, r *reader) {
	t.workspace, t.dir = workspace, filepath.Join(workspace, t.m.Run.Directory)
	t.isolate(workspace, r)
	if h := t.m.Run.Persistent; h != nil {
		t.pool = newPool(t, h)
	}
}

// of returns the variant of the tool for a namespace.
func (t *scripted) of(namespace string) *scripted {
	if own := t.own[namespace]; own != nil {
		return own
	}
	return t
}

// pools returns the pools of all variants of the tool.
func (t *scripted) pools() (all []*pool) {
	for _, one := range append(slices.Collect(maps.Values(t.own)), t) {
		if one.pool != nil {
			all = append(all, one.pool)
		}
	}
	return all
}

// findFiles makes the pins for the program and its files. It rejects files in a workspace, because callers can write there.
func (t *scripted) findFiles(r *reader) {
	absolute := func(path string) string {
		if filepath.IsAbs(path) {
			return filepath.Clean(path)
		}
		dir, err := filepath.Abs(filepath.Dir(r.file))
		if err != nil {
			dir = filepath.Dir(r.file)
		}
		return filepath.Join(dir, path)
	}
	add := func(path, at, digest string) {
		for _, workspace := range append(slices.Collect(maps.Values(t.cfg.Workspaces)), t.cfg.Workspace) {
			if through(workspace, path) {
				r.wrong(at, "%s is in the workspace, where callers can change it; move it elsewhere", path)
				return
			}
		}
		one, err := newPin(path, digest)
		if err != nil {
			r.wrong(at, "%v", err)
			return
		}
		t.pins = append(t.pins, one)
	}
	t.program = absolute(t.m.Run.Program)
	if info, err := os.Stat(t.program); err != nil {
		r.wrong("run.program", "%s: %v", t.program, bare(err))
		return
	} else if info.Mode().Perm()&0o111 == 0 {
		r.wrong("run.program", "%s is not executable; run chmod +x", t.program)
	}
	add(t.program, "run.program", t.m.Run.Digest)
	for i, f := range t.m.Run.Files {
		add(absolute(f.Path), fmt.Sprintf("run.files[%d]", i), f.Digest)
	}
}

// maxLinks is the maximum number of symbolic links in a path, as in the Linux kernel.
const maxLinks = 40

// through reports whether the path to a file leads through dir. A user who can write in dir could redirect such a path.
func through(dir, path string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	at, ahead := "/", strings.Split(path, "/") // at is resolved and contains no links; ahead are the parts that remain
	for links := 0; len(ahead) > 0; {
		next := filepath.Join(at, ahead[0])
		ahead = ahead[1:]
		if within(dir, next) {
			return true
		}
		to, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return true // The kernel rejects such a path too.
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		ahead = append(strings.Split(to, "/"), ahead...)
	}
	return false
}

// within reports whether path is dir or below it. Neither may contain symbolic links.
func within(dir, path string) bool {
	inside, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(inside)
}

// isolate sets the policy of the tool: the profile's policy, plus read access to the tool's files, with the tool's limits.
func (t *scripted) isolate(workspace string, r *reader) {
	policy, err := t.cfg.Policy(t.m.Run.Profile, workspace)
	if err != nil {
		r.wrong("run.profile", "%v", err)
		return
	}
	l := &t.m.Run.Limits
	if policy == nil {
		if l.Tmp+l.Processes+l.Memory+l.Total+l.FileSize+l.Files > 0 || l.CPU > 0 || l.CPUs > 0 {
			r.wrong("run.limits", "the profile %s supports no limit except output", t.m.Run.Profile)
		}
		return
	}
	own := *policy
	own.Read = slices.Clone(policy.Read)
	for _, p := range t.pins {
		for _, path := range []string{p.path, resolved(p.path)} {
			if !slices.Contains(own.Read, path) && !ofSystem(path) {
				own.Read = append(own.Read, path)
			}
		}
	}
	own.Limits = sandbox.Limits{
		Tmp: cmp.Or(int64(l.Tmp), policy.Limits.Tmp), Processes: cmp.Or(l.Processes, policy.Limits.Processes), Memory: cmp.Or(int64(l.Memory), policy.Limits.Memory),
		FileSize: cmp.Or(int64(l.FileSize), policy.Limits.FileSize), OpenFiles: cmp.Or(l.Files, policy.Limits.OpenFiles), CPU: cmp.Or(l.CPU, policy.Limits.CPU),
		MemoryTotal: cmp.Or(int64(l.Total), policy.Limits.MemoryTotal), CPUs: cmp.Or(l.CPUs, policy.Limits.CPUs),
	}
	if err := own.Check(); err != nil {
		r.wrong("run.limits", "%v", err)
	}
	t.policy = &own
}

func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// ofSystem reports whether a file is in a directory that every isolated program can see.
func ofSystem(path string) bool {
	return slices.ContainsFunc([]string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt"}, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
}

// identify sets the key and returns the version. A reload compares keys to find unchanged manifests.
//
// The version depends on the whole manifest, its profile and the pinned digests, so an approval is never valid for another command. It does
// not depend on paths of this machine, so a stored answer is also valid on a machine with other paths. Only the key depends on paths.
func (t *scripted) identify(r *reader) (version string) {
	var profile sandbox.Policy
	if t.policy != nil {
		profile = *t.policy
	}
	profile.Workspace, profile.Read, profile.Hide, profile.Protect = "", nil, nil, nil
	version = fmt.Sprintf("%s\x00%v\x00%t", r.shape, profile, t.policy != nil)
	key := fmt.Sprintf("%s\x00%v\x00%v\x00%s", r.file, t.cfg.Workspaces, t.policy, version)
	for _, p := range t.pins {
		version += "\x00" + p.digest
		key += "\x00" + p.path + "=" + p.digest
	}
	t.key = hexSum(key)
	return hexSum(version)[:12]
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (t *scripted) describeTool(r *reader) {
	m := t.m
	d := tool.Descriptor{
		ID: m.ID, DisplayName: m.DisplayName, Description: m.Description, Category: m.Category, Parameters: m.Parameters, ResultSchema: m.ResultSchema,
		Idempotent: m.Idempotent, OnDoubt: tool.OnDoubt(m.OnDoubt), Timeouts: tool.Timeouts(m.Timeouts), MaxArguments: m.MaxArguments, OutputBudget: m.OutputBudget,
		RequiredIsolation: tool.IsolationNone, RequiredNetwork: "open", RequiredSecrets: m.secretNames(),
		Guidance: m.Guidance, Annotations: m.Annotations, Aliases: m.Aliases, Version: strings.TrimPrefix(m.Version+"+"+t.identify(r), "+"), Metadata: maps.Clone(m.Metadata),
	}
	if d.Metadata == nil {
		d.Metadata = map[string]string{}
	}
	d.Metadata[ProfileMark] = m.Run.Profile
	if p := t.policy; p != nil {
		if !p.Unsupervised {
			d.RequiredIsolation = tool.IsolationFull
		}
		if p.Network != sandbox.NetworkOpen {
			d.RequiredNetwork = cmp.Or(string(p.Network), "none")
		}
	}
	open := d.RequiredNetwork != "none"
	d.Effects = m.Effects.effects(open)
	if m.Mildest != nil {
		mildest := m.Mildest.effects(open)
		d.Mildest = &mildest
	}
	t.descriptor = d
}

// secretNames returns the names of the secrets in a manifest.
func (m *Manifest) secretNames() (names []string) {
	for _, h := range m.Run.Secrets {
		names = append(names, strings.TrimPrefix(h.reference, secretScheme))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (t *scripted) Descriptor() tool.Descriptor { return t.descriptor }

func (t *scripted) Validate(args tool.Arguments) error {
	_, err := t.fill(args)
	return err
}

// A filled is the command line and the variables of a manifest, filled with the arguments of a call.
type filled struct {
	args []string
	env  []string
}

func (t *scripted) fill(args tool.Arguments) (*filled, error) {
	f := &filling{values: args.Value(), defaults: t.defaults}
	out := &filled{args: t.m.arguments(f)}
	for _, name := range slices.Sorted(maps.Keys(t.m.Run.Environment)) {
		text, err := parseTemplate(t.m.Run.Environment[name], name)
		if err != nil {
			return nil, err // This cannot happen, because the template was checked when the manifest was read.
		}
		for _, value := range f.texts(&text) {
			if len(value) > maxElement-len(name)-1 {
				f.wrong(fieldOf(&text), "is longer than the limit for one text of a program")
			}
			out.env = append(out.env, name+"="+value)
		}
		if len(text.parts) == 0 {
			out.env = append(out.env, name+"=")
		}
	}
	if len(f.violations) > 0 {
		return nil, &tool.Error{Code: tool.InvalidArguments, Message: "The program was not run.", Violations: f.violations}
	}
	return out, nil
}

func (t *scripted) Assess(args tool.Arguments) tool.Effects {
	open := t.descriptor.RequiredNetwork != "none"
	for i := range t.m.Assess {
		if fits(t.m.Assess[i].When, args.Value()) {
			out := t.m.Assess[i].Effects.effects(open)
			out.Resources = t.m.Assess[i].Effects.resources(args.Value(), t.defaults)
			return out
		}
	}
	return t.descriptor.Effects
}

// fits reports whether the arguments match a condition. The map when contains, for each argument of the condition, the required value or a
// list of the permitted values.
func fits(when map[string]json.RawMessage, args map[string]any) bool {
	for name, text := range when {
		var want any
		if decodeExact(text, &want) != nil {
			return false
		}
		got, ok := args[name]
		if list, isList := want.([]any); isList && ok {
			ok = slices.ContainsFunc(list, func(one any) bool { return reflect.DeepEqual(one, got) })
		} else if ok {
			ok = reflect.DeepEqual(want, got)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (t *scripted) Describe(_ context.Context, c *tool.Call) (tool.Description, error) {
	d := tool.Description{Kind: cmp.Or(tool.Kind(t.m.Kind), tool.KindExecute), Title: t.descriptor.Name()}
	f := &filling{values: c.Arguments.Value(), defaults: t.defaults}
	if texts := f.texts(&t.title); len(t.title.parts) > 0 && len(texts) == 1 {
		d.Title = oneLine(texts[0])
	}
	words := []string{word(t.program)}
	for _, a := range t.m.arguments(f) {
		words = append(words, word(a))
	}
	if len(f.violations) > 0 {
		return d, errors.New("no command can be built from the arguments")
	}
	d.Preview = []tool.Content{{Type: tool.ContentText, Text: strings.Join(words, " ")}}
	if t.m.Run.Stdin == stdinArguments || t.m.Run.Stdin == stdinCall || t.pool != nil {
		d.Notes = append(d.Notes, "The program receives the arguments on standard input.")
	}
	d.Notes = append(d.Notes, t.isolationNote())
	return d, nil
}

func (t *scripted) isolationNote() string {
	switch d := &t.descriptor; {
	case d.RequiredIsolation == tool.IsolationNone && t.policy == nil:
		return "Runs without isolation, with the rights of the user that runs toold."
	case d.RequiredIsolation == tool.IsolationNone:
		return "Files and network are isolated; processes are not."
	case d.RequiredNetwork == "open":
		return "Runs isolated, but reaches the network."
	case d.RequiredNetwork == "none":
		return "Runs isolated, without network."
	default:
		return "Runs isolated; its network is " + d.RequiredNetwork + "."
	}
}

// word returns an element of an argument list, quoted for a shell.
func word(s string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_=./:,@%+", c)
	}
	if s != "" && strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// oneLine returns s as one line, for a title.
func oneLine(s string) string {
	line, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	if runes := []rune(line); len(runes) > 80 {
		return string(runes[:79]) + "…"
	}
	if more {
		line += " …"
	}
	return line
}
