package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
)

type player struct {
	c     *Config
	token string // token of one principal, used to wait for a restart
	names names
	open  map[string]*flow
}

// A mismatch is an answer that differs from the transcript.
type mismatch struct {
	line    int
	step    string
	differs []string
	came    []string
}

func (m *mismatch) Error() string {
	return fmt.Sprintf("line %d, %s: %s", m.line, m.step, strings.Join(m.differs, "; "))
}

// as adds a token to a request.
func as(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

func newPlayer(c *Config, t *Transcript) *player {
	p := &player{c: c, names: names{}, open: map[string]*flow{}}
	if users := t.users(); len(users) > 0 {
		p.token = c.Tokens[users[0]]
	}
	for _, name := range t.fresh {
		p.names[name] = freshID(name)
	}
	return p
}

// freshID returns an id that no daemon has seen. It contains the name of the transcript's variable.
func freshID(name string) string {
	b := make([]byte, 10)
	_, _ = rand.Read(b) // never fails
	return "cf-" + strings.ReplaceAll(name, "_", "-") + "-" + hex.EncodeToString(b)
}

func (p *player) close() {
	for _, f := range p.open {
		f.leave()
	}
}

// play executes one step. It returns a *mismatch when the daemon answers differently.
func (p *player) play(ctx context.Context, s *step) error {
	switch s.verb {
	case crash:
		p.close()
		clear(p.open)
		return p.c.restart(ctx, p.token)
	case leave:
		p.open[s.stream].leave()
		return nil
	case read:
		f := p.open[s.stream]
		f.skip = s.skip
		return p.within(ctx, f.cancel, func() error { return p.compare(s, f) })
	}
	for deadline := time.Now().Add(p.c.patience()); ; {
		err := p.ask(ctx, s)
		if differs := (*mismatch)(nil); !s.until || !errors.As(err, &differs) || time.Now().After(deadline) {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// ask sends a request and compares the answer.
func (p *player) ask(ctx context.Context, s *step) error {
	body, err := p.names.fill(s.request)
	if err != nil {
		return err
	}
	asking, cancel := context.WithCancel(ctx)
	err = p.within(ctx, cancel, func() error {
		f, err := begin(asking, p.c.Conn, p.c.Tokens[s.user], s.method, body, s.skip)
		if err != nil {
			return err
		}
		if s.stream != "" {
			p.open[s.stream] = f
			cancelled := f.cancel
			f.cancel = func() { cancelled(); cancel() }
		} else {
			defer f.leave()
		}
		return p.compare(s, f)
	})
	if s.stream == "" || err != nil {
		cancel()
	}
	return err
}

// within runs f and invokes cancel when f takes longer than the player's patience. ctx must not be the context that cancel ends.
func (p *player) within(ctx context.Context, cancel func(), f func() error) error {
	late := time.AfterFunc(p.c.patience(), cancel)
	err := f()
	if !late.Stop() && ctx.Err() == nil {
		none := fmt.Errorf("no answer within %v", p.c.patience())
		if m, ok := errors.AsType[*mismatch](err); ok { // keeps the lines that arrived before the timeout
			m.differs = append([]string{none.Error()}, m.differs...)
			return m
		}
		return errors.Join(none, err)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// compare reads as many lines of a flow as the step expects and compares them. It keeps new values of variables only when the whole answer
// matches.
func (p *player) compare(s *step, f *flow) error {
	n := len(s.want)
	ends := s.stream == "" || n > 0 && (s.want[n-1].word == "end" || slices.ContainsFunc(s.want, isStatus))
	if ends {
		n = -1
	}
	got, err := f.lines(n)
	if err != nil {
		return err
	}
	want := s.want
	if ends && !slices.ContainsFunc(want, isStatus) && (len(want) == 0 || want[len(want)-1].word != "end") {
		want = append(slices.Clone(want), line{number: s.line, word: "end"})
	}
	tried := names{}
	for k, v := range p.names {
		tried[k] = v
	}
	differs := append(tried.compareAll(want, got), f.holes...)
	if len(differs) > 0 {
		m := &mismatch{line: s.line, step: s.String(), differs: differs}
		for _, l := range got {
			m.came = append(m.came, p.names.show(l.String()))
		}
		return m
	}
	p.names = tried
	return nil
}

func isStatus(l line) bool { return l.word == "status" }

// compareAll compares lines by group: the events of each call, controls and messages, and the details of a status.
func (n names) compareAll(want []line, got []arrived) (differs []string) {
	arrivedIn := map[string][]arrived{}
	for _, g := range got {
		arrivedIn[g.group] = append(arrivedIn[g.group], g)
	}
	wantedIn, order := map[string][]line{}, []string{}
	for _, w := range want {
		group := n.groupOf(w)
		if wantedIn[group] == nil {
			order = append(order, group)
		}
		wantedIn[group] = append(wantedIn[group], w)
	}
	for _, group := range order {
		if group == details {
			differs = append(differs, n.compareDetails(wantedIn[group], arrivedIn[group])...)
		} else {
			differs = append(differs, n.compareGroup(wantedIn[group], arrivedIn[group])...)
		}
	}
	for _, g := range got {
		if wantedIn[g.group] == nil && g.group != details {
			differs = append(differs, "unexpected: "+n.show(g.String()))
		}
	}
	return differs
}

func (n names) groupOf(l line) string {
	v, _ := l.value.(map[string]any)
	id, _ := v["callId"].(string)
	item, _ := v["correlationId"].(string)
	switch {
	case l.word == "event":
		if filled, err := n.fill(id); err == nil {
			return filled
		}
		return id
	case l.word == "ErrorInfo" || l.word == "BadRequest" || l.word == "RetryInfo":
		return details
	case item != "":
		return itemGroup(item)
	}
	return ""
}

func (n names) compareGroup(want []line, got []arrived) (differs []string) {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			differs = append(differs, fmt.Sprintf("line %d: missing: %s %s", want[i].number, want[i].word, n.wanted(want[i].value)))
		case i >= len(want):
			differs = append(differs, "unexpected: "+n.show(got[i].String()))
		case want[i].word != got[i].word:
			differs = append(differs, fmt.Sprintf("line %d: want %s, got %s", want[i].number, want[i].String(), n.show(got[i].String())))
		default:
			for _, d := range n.match(want[i].word, want[i].value, got[i].value) {
				differs = append(differs, fmt.Sprintf("line %d: %s", want[i].number, d))
			}
		}
	}
	return differs
}

// compareDetails requires each expected detail to be present, in any order. Further details may be present.
func (n names) compareDetails(want []line, got []arrived) (differs []string) {
	for _, w := range want {
		var best []string
		found := false
		for _, g := range got {
			if g.word != w.word || found {
				continue
			}
			best = n.match(w.word, w.value, g.value)
			found = len(best) == 0
		}
		if !found && best == nil {
			best = []string{"missing: " + w.String()}
		}
		for _, d := range best {
			differs = append(differs, fmt.Sprintf("line %d: %s", w.number, d))
		}
	}
	return differs
}

func (l line) String() string {
	switch v := l.value.(type) {
	case nil:
		return l.word
	case string:
		return l.word + " " + v
	}
	return strings.TrimPrefix(l.word+" "+compact(l.value), " ")
}

func (a arrived) String() string {
	if a.text != "" {
		return a.line.String() + ": " + a.text
	}
	return a.line.String()
}

func (s *step) String() string {
	switch s.verb {
	case crash:
		return "crash"
	case leave:
		return "leave " + s.stream
	case read:
		return "read " + s.stream
	}
	return s.user + " " + s.method
}
