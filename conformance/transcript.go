package conformance

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed transcripts/*.txt
var files embed.FS

// A Transcript is one sequence of requests and expected answers.
type Transcript struct {
	Name  string
	About string   // the behaviour that it tests
	Ends  []string // the rows of the table of outcomes that it shows
	Needs []Need   // requirements besides the principals of its steps
	Hints []string // requirements on the configuration that the API cannot check

	fresh []string
	steps []step
}

// A Need is a tool that the daemon must have, or the verdict of its gates on a call.
type Need struct {
	User, Tool, Arguments string // with only Tool set, the tool must exist
	Outcome               string // combined verdict of the gates: ALLOW, SUSPEND, SET_RESULT, DENY or BLOCK
}

// A step is a request with its expected answer, or an action on a stream or on the daemon.
type step struct {
	line    int // line number of the heading
	verb    verb
	user    string
	method  string
	stream  string // name of the stream that is opened, read or left
	until   bool   // repeat the request until the answer matches
	skip    []string
	request string
	want    []line
	hasWant bool
}

type verb int

const (
	request verb = iota
	read
	leave
	crash
)

// A line is one line of an answer: a message, an event or control of a frame, the final status, or one of its details.
type line struct {
	number int
	word   string // empty for a message
	value  any    // decoded by encoding/json with json.Number
}

// All returns the transcripts of this package, sorted by name.
func All() ([]*Transcript, error) {
	names, err := fs.Glob(files, "transcripts/*.txt")
	if err != nil {
		return nil, err
	}
	var all []*Transcript
	var problems []error
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		t, err := Parse(strings.TrimSuffix(path.Base(name), ".txt"), string(text))
		all, problems = append(all, t), append(problems, err)
	}
	return all, errors.Join(problems...)
}

// Parse parses a transcript. Errors contain the line number.
func Parse(name, text string) (*Transcript, error) {
	p := &parser{t: &Transcript{Name: name}}
	for l := range strings.Lines(text) {
		p.number++
		if err := p.line(strings.TrimSuffix(l, "\n")); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, p.number, err)
		}
	}
	if err := p.t.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p.t, nil
}

type parser struct {
	t      *Transcript
	number int
	answer bool // the following lines belong to an answer
}

var heading = regexp.MustCompile(`^-- (.+) --$`)

func (p *parser) line(text string) error {
	m := heading.FindStringSubmatch(text)
	switch {
	case m != nil && m[1] == "answer":
		return p.beginAnswer()
	case m != nil:
		s, err := parseHeading(strings.Fields(m[1]))
		s.line, p.answer = p.number, false
		p.t.steps = append(p.t.steps, s)
		return err
	case len(p.t.steps) == 0:
		return p.head(text)
	case p.answer:
		return p.answerLine(text)
	}
	s := &p.t.steps[len(p.t.steps)-1]
	if s.verb != request && strings.TrimSpace(text) != "" {
		return errors.New("only requests have a body")
	}
	s.request += text + "\n"
	return nil
}

func (p *parser) beginAnswer() error {
	if len(p.t.steps) == 0 || p.answer {
		return errors.New("an answer without a request")
	}
	s := &p.t.steps[len(p.t.steps)-1]
	if s.verb == leave || s.verb == crash {
		return errors.New("this step has no answer")
	}
	p.answer, s.hasWant = true, true
	return nil
}

func (p *parser) answerLine(text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	s := &p.t.steps[len(p.t.steps)-1]
	l := line{number: p.number}
	if text == "end" {
		l.word = text
	} else if word, code, ok := strings.Cut(text, " "); ok && word == "status" {
		l.word, l.value = word, code
	} else {
		l.word, text, _ = cutWord(text)
		var err error
		if l.value, err = decode(text); err != nil {
			return err
		}
	}
	s.want = append(s.want, l)
	return nil
}

// cutWord returns the word before a JSON object.
func cutWord(text string) (word, rest string, ok bool) {
	if strings.HasPrefix(text, "{") {
		return "", text, false
	}
	return strings.Cut(text, " ")
}

// head parses one line of the part before the first step: a part of the description, or a setting.
func (p *parser) head(text string) error {
	key, value, ok := strings.Cut(text, ": ")
	if !ok || !slices.Contains([]string{"fresh", "needs", "hint", "end"}, key) {
		p.t.About = strings.TrimSpace(p.t.About + " " + text)
		return nil
	}
	switch key {
	case "fresh":
		p.t.fresh = append(p.t.fresh, strings.Fields(value)...)
	case "hint":
		p.t.Hints = append(p.t.Hints, value)
	case "end":
		p.t.Ends = append(p.t.Ends, value)
	case "needs":
		n, err := parseNeed(value)
		p.t.Needs = append(p.t.Needs, n)
		return err
	}
	return nil
}

// parseNeed parses "tool ID", or a principal, a tool, its arguments and the verdict of the gates.
func parseNeed(text string) (Need, error) {
	if id, ok := strings.CutPrefix(text, "tool "); ok {
		return Need{Tool: id}, nil
	}
	m := regexp.MustCompile(`^(\S+) (\S+) (\{.*\}) ([A-Z_]+)$`).FindStringSubmatch(text)
	if m == nil {
		return Need{}, fmt.Errorf("needs %q: want \"tool ID\" or \"USER TOOL {arguments} OUTCOME\"", text)
	}
	return Need{User: m[1], Tool: m[2], Arguments: m[3], Outcome: m[4]}, nil
}

func parseHeading(words []string) (step, error) {
	switch {
	case len(words) == 1 && words[0] == "crash":
		return step{verb: crash}, nil
	case len(words) >= 2 && words[0] == "read":
		s := step{verb: read}
		err := s.options(words[2:])
		if err == nil && (s.until || s.stream != "") {
			err = errors.New("read has no option except skip")
		}
		s.stream = words[1]
		return s, err
	case len(words) == 2 && words[0] == "leave":
		return step{verb: leave, stream: words[1]}, nil
	case len(words) < 2:
		return step{}, fmt.Errorf("want a person and a method, got %q", strings.Join(words, " "))
	}
	s := step{verb: request, user: words[0], method: words[1]}
	return s, s.options(words[2:])
}

func (s *step) options(words []string) error {
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "until":
			s.until = true
		case "open":
			s.stream = value
		case "skip":
			if s.skip = strings.Split(value, ","); slices.ContainsFunc(s.skip, ofTheEnd) {
				return errors.New("end and status cannot be skipped")
			}
		default:
			return fmt.Errorf("no option %q: want until, open=NAME or skip=WORD,WORD", w)
		}
	}
	if s.until && s.stream != "" {
		return errors.New("until and open exclude each other")
	}
	return nil
}

func ofTheEnd(word string) bool { return word == "" || word == "end" || word == "status" }

// check returns an error for mistakes that would make a transcript pass without testing anything.
func (t *Transcript) check() error {
	switch {
	case t.About == "":
		return errors.New("the first line must say what the transcript checks")
	case len(t.steps) == 0:
		return errors.New("no steps")
	}
	open := map[string]bool{}
	for i := range t.steps {
		if err := t.steps[i].check(open); err != nil {
			return fmt.Errorf("line %d: %w", t.steps[i].line, err)
		}
	}
	return nil
}

// check checks one step. open holds the streams that are open before it.
func (s *step) check(open map[string]bool) error {
	switch {
	case (s.verb == read || s.verb == leave) && !open[s.stream]:
		return fmt.Errorf("no stream %q is open", s.stream)
	case s.verb == request && s.stream != "" && open[s.stream]:
		return fmt.Errorf("a stream %q is already open", s.stream)
	case (s.verb == request || s.verb == read) && !s.hasWant:
		return errors.New("the step has no expected answer")
	case (s.verb == read || s.verb == request && s.stream == "") && len(s.want) == 0:
		return errors.New("the answer is empty")
	}
	switch {
	case s.verb == crash:
		clear(open)
	case s.verb == leave:
		delete(open, s.stream)
	case s.stream != "":
		open[s.stream] = true
	}
	return nil
}

// users returns the principals of its steps and needs.
func (t *Transcript) users() []string {
	var all []string
	for _, s := range t.steps {
		if s.verb == request {
			all = append(all, s.user)
		}
	}
	for _, n := range t.Needs {
		if n.User != "" {
			all = append(all, n.User)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Crashes reports whether the transcript needs a daemon that can be killed and started again.
func (t *Transcript) Crashes() bool {
	return slices.ContainsFunc(t.steps, func(s step) bool { return s.verb == crash })
}

// decode parses JSON and keeps the text of numbers.
func decode(text string) (any, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w in %s", err, text)
	}
	if d.More() {
		return nil, fmt.Errorf("more than one value in %s", text)
	}
	return v, nil
}
