package files

import (
	"context"
	"fmt"
	"strings"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// mutation is a tool that changes the content of one file. write, edit and multi_edit are mutations with different arguments and different
// functions check and next.
type mutation struct {
	*family
	descriptor tool.Descriptor
	verb       string
	// check checks the arguments for what the schema cannot express. It is pure.
	check func(tool.Arguments) error
	// next returns the new content of the file. It is pure. When it fails, the file stays unchanged.
	next func(name string, args tool.Arguments, now snapshot) (revision, error)
}

// revision is the new content of a file.
type revision struct {
	content      []byte
	replacements int
	done         string // text for the model that says what was done, such as "Replaced 2 occurrences"
}

// change is the state of the work on one call.
type change struct {
	target resolvedPath
	// hidden reports that the path leads to a protected file through a link, and is not itself the path of a protected file.
	hidden bool
	was    snapshot
	know   knowledge
	next   revision
}

func (t *mutation) Descriptor() tool.Descriptor { return t.descriptor }

func (t *mutation) Validate(args tool.Arguments) error {
	if _, err := t.locate("path", args.String("path")); err != nil {
		return err
	}
	return t.check(args)
}

// Assess implements [tool.Assessor]. A change of a protected file is destructive, and so is a call with overwrite. Assess follows the links
// that exist when it is called, and names the file to which they lead as the only resource. When the call runs, the methods open and held
// detect later changes.
func (t *mutation) Assess(args tool.Arguments) tool.Effects {
	e := *t.descriptor.Mildest
	e.Resources = nil
	destroys := flag(args, "overwrite")
	if p, err := t.find(context.Background(), args.String("path")); err == nil {
		e.Resources = resourceOf(p.actual)
		destroys = destroys || t.protected(p.actual)
	}
	if name, err := t.locate("path", args.String("path")); destroys || err == nil && t.protected(name) {
		e.Safety = t.descriptor.Effects.Safety
	}
	return e
}

func (t *mutation) protected(name string) bool { return sandbox.Protects(t.protect, name) }

// mutating returns the effects of a call with unknown arguments, and the mildest effects of any call.
func mutating() (tool.Effects, *tool.Effects) {
	worst := tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyDestructive, Tier: tool.Confirm}
	mildest := worst
	mildest.Safety, mildest.Resources = tool.SafetyMutating, []tool.Resource{{Kind: tool.ResourceFile}}
	return worst, &mildest
}

// prepare reads the file and what the thread knows about it. It returns an error when the file cannot be changed.
func (t *mutation) prepare(ctx context.Context, call *tool.Call) (*change, error) {
	p, err := t.find(ctx, call.Arguments.String("path"))
	if err != nil {
		return nil, err
	}
	return t.prepareAt(ctx, call, p)
}

func (t *mutation) prepareAt(ctx context.Context, call *tool.Call, p resolvedPath) (*change, error) {
	now, err := t.load(ctx, p)
	if err != nil {
		return nil, err
	}
	know, err := knowledgeOf(call, p.actual, now)
	return &change{target: p, hidden: t.protected(p.actual) && !t.protected(p.path), was: now, know: know}, err
}

// basis identifies the state from which the description of the change was made: the content of the file, the path, and the target of the
// path.
func (c *change) basis() string {
	return c.was.basis() + " " + sumOf([]byte(c.target.path)) + " " + sumOf([]byte(c.target.actual))
}

// outdated reports whether the state has changed since basis was made: the file has other content, or the path leads to another file. When
// an approver has edited the path, outdated compares only the content.
func (c *change) outdated(basis string) bool {
	content, where, _ := strings.Cut(basis, " ")
	named, _, whole := strings.Cut(where, " ")
	if content != c.was.basis() {
		return true
	}
	return whole && named == sumOf([]byte(c.target.path)) && basis != c.basis()
}

// open returns an error for a protected file behind a link, unless an approver saw where the link leads.
func (c *change) open(call *tool.Call) error {
	if !c.hidden || call.Resume != nil && call.Resume.Basis == c.basis() {
		return nil
	}
	return refuse(reasonProtected, "%s is a symbolic link to %s, which is protected: a change could make other programs run code. Use that path directly.",
		quote(c.target.path), quote(c.target.actual))
}

// held returns an error when the file differs from what the thread read, or from what an approver saw.
func (c *change) held(call *tool.Call) error {
	name := quote(c.target.path)
	if call.Resume != nil && call.Resume.Basis != "" && c.outdated(call.Resume.Basis) {
		return refuse(reasonChanged, "%s has changed since this change was shown for approval, and was not modified. Read it and send a new call.", name)
	}
	if flag(call.Arguments, "overwrite") {
		return nil
	}
	switch c.know {
	case unread:
		return refuse(reasonNotRead, "%s exists and has not been read in this thread. Read it first, or set overwrite to replace it unread.", name)
	case changed:
		return refuse(reasonChanged, "%s has changed since it was read in this thread. Read it again, or set overwrite to change it unread.", name)
	}
	return nil
}

func (t *mutation) Execute(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	r, err := t.run(ctx, call)
	return answer(ctx, r, err)
}

func (t *mutation) run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	if err := t.Validate(call.Arguments); err != nil {
		return nil, err
	}
	p, err := t.find(ctx, call.Arguments.String("path"))
	if err != nil {
		return nil, err
	}
	unlock, err := t.writing.lock(ctx, p.actual)
	if err != nil {
		return nil, err
	}
	defer unlock()
	c, err := t.prepareAt(ctx, call, p)
	if err == nil {
		err = c.open(call)
	}
	if err == nil {
		err = c.held(call)
	}
	if err == nil {
		c.next, err = t.revise(c, call.Arguments)
	}
	if err != nil {
		return nil, err
	}
	after := sumOf(c.next.content)
	if after == c.was.hash {
		c.next.done = "Nothing to do: the file already has this content"
	} else {
		if err := mark(call, c.target.actual, c.was.hash, after); err != nil {
			return nil, err
		}
		if err := t.workspace.Replace(ctx, c.target.actual, c.next.content, c.was.hash); err != nil {
			return nil, explain(c.target.path, err)
		}
	}
	return remember(call, c.result(after), c.target.actual, after), nil
}

func (t *mutation) revise(c *change, args tool.Arguments) (revision, error) {
	next, err := t.next(c.target.path, args, c.was)
	if err == nil && int64(len(next.content)) > t.limits.FileSize {
		err = tooLarge(c.target.path, int64(len(next.content)), t.limits.FileSize)
	}
	return next, err
}

func tooLarge(name string, size, most int64) error {
	return refuse(reasonTooLarge, "%s would have %d bytes; the limit is %d.", quote(name), size, most)
}

type changeData struct {
	Path         string `json:"path"`
	Created      bool   `json:"created"`
	Changed      bool   `json:"changed"`
	Replacements int    `json:"replacements,omitempty"`
	Added        int    `json:"lines_added"`
	Removed      int    `json:"lines_removed"`
	FirstLine    int    `json:"first_line,omitempty"` // number of the first new line
	Size         int    `json:"size"`
	SHA256       string `json:"sha256"`
}

func (c *change) result(after string) *tool.Result {
	d := difference(exact(c.target.path), c.was, c.next.content, diffResult)
	data := changeData{
		Path: exact(c.target.path), Created: !c.was.exists(), Changed: after != c.was.hash, Replacements: c.next.replacements,
		Added: d.added, Removed: d.removed, FirstLine: d.line, Size: len(c.next.content), SHA256: after,
	}
	message := fmt.Sprintf("%s: %s", c.next.done, quote(c.target.path))
	if data.Changed {
		message += fmt.Sprintf(" (%d lines added, %d removed", d.added, d.removed)
		if d.line > 0 {
			message += fmt.Sprintf(", from line %d", d.line)
		}
		message += ")"
	}
	r := success(data, message+".")
	if d.text != "" {
		r.Content = []tool.Content{{Type: tool.ContentDiff, Text: d.text, Name: exact(c.target.path)}}
		r.Display = tool.DisplayDiff
	}
	return r
}

// Describe implements [tool.Describer]. When the change would be refused, the description contains the reason as a note.
func (t *mutation) Describe(ctx context.Context, call *tool.Call) (tool.Description, error) {
	name, err := t.locate("path", call.Arguments.String("path"))
	if err != nil {
		return tool.Description{}, err
	}
	d := tool.Description{Kind: tool.KindEdit, Title: t.verb + " " + short(name), Locations: []tool.Location{{Path: exact(name)}}}
	c, err := t.prepare(ctx, call)
	if err == nil {
		d.Basis = c.basis()
		d.Notes = t.notes(c, flag(call.Arguments, "overwrite"))
		d.Locations[0].Path = exact(c.target.actual)
		if !c.was.exists() && t.verb == "Write" {
			d.Title = "Create " + short(name)
		}
		if refusal := c.held(call); refusal != nil {
			d.Notes = append(d.Notes, "will be refused: "+refusal.Error())
		}
		c.next, err = t.revise(c, call.Arguments)
	}
	if ctx.Err() != nil {
		return tool.Description{}, ctx.Err()
	}
	if err != nil {
		d.Notes = append(d.Notes, "will be refused: "+err.Error())
		return d, nil //nolint:nilerr // a call that will be refused can be described
	}
	diff := difference(exact(c.target.path), c.was, c.next.content, diffPreview)
	d.Locations[0].Line = diff.line
	if diff.text != "" {
		d.Preview = []tool.Content{{Type: tool.ContentDiff, Text: diff.text, Name: exact(c.target.path)}}
	}
	d.Notes = append(d.Notes, diff.notes...)
	return d, nil
}

// notes returns what an approver should know about the file.
func (t *mutation) notes(c *change, overwrite bool) []string {
	var notes []string
	switch {
	case !c.was.exists():
		notes = append(notes, "the file does not exist yet")
	case c.know == unread && overwrite:
		notes = append(notes, "overwrites a file that this thread has not read")
	case c.know == changed && overwrite:
		notes = append(notes, "overwrites a file that changed since this thread read it")
	}
	if c.target.path != c.target.actual {
		notes = append(notes, "follows a symbolic link to "+quote(c.target.actual))
	}
	if t.protected(c.target.actual) {
		notes = append(notes, "changes a protected file, which can make other programs run code later")
	}
	return notes
}
