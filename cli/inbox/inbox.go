// Package inbox lets a person work through the suspended calls with the keyboard of a terminal.
//
// The user selects a suspension, not a row. If another approver decides it, it stays selected and is marked as settled, so that no key acts on
// a different call. Every decision needs a second key. Pasted text is never treated as keys. Package show produces and escapes everything
// that is displayed.
package inbox

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Daemon is the inbox's access to the daemon. Its methods are called from several goroutines. The inbox shows their errors unchanged.
type Daemon interface {
	// Waiting returns the suspended calls, oldest first. more reports that there are others beyond the limit.
	Waiting(ctx context.Context) (calls []*tooldv1.Call, more bool, err error)
	// Changed returns when the list of suspended calls may have changed, or after a while.
	Changed(ctx context.Context) error
	// Claim says that the user looks at a call, so that others see it. A repeated claim extends the time.
	Claim(ctx context.Context, c *tooldv1.Call) error
	// Decide sends a decision about a call and invokes taken when the daemon has accepted it. outcome describes how the call continued.
	Decide(ctx context.Context, c *tooldv1.Call, d *tooldv1.Decision, taken func()) (outcome string, err error)
}

// A Config is the configuration of an inbox. All fields except Notice are required.
type Config struct {
	Daemon  Daemon
	In, Out *os.File // must be terminals
	Notice  string   // the first message shown; may be empty
	View    func() show.View
	// Edit opens JSON text in an editor on the same terminal and returns the edited text.
	Edit func(ctx context.Context, text string) (string, error)
	// Answer builds the JSON text of an answer from words, according to its schema.
	Answer func(words []string, schema string) (string, error)
}

// Run shows the inbox until the user leaves it or ctx ends. Then it restores the terminal.
func Run(ctx context.Context, cfg Config) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &session{cfg: cfg, m: newModel(), t: &terminal{in: cfg.In, out: cfg.Out}, news: make(chan func()), again: make(chan struct{}, 1)}
	s.ctx = ctx
	s.m.say(cfg.Notice, true)
	if err := s.t.take(); err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		err = errors.Join(err, s.t.give())
		s.others.Wait()
	}()
	s.others.Go(s.look)
	return s.loop()
}

// session is the state of one Run of the inbox. Only the goroutine that runs loop uses the fields m and t. Other goroutines send functions
// to that goroutine, which runs them.
type session struct {
	cfg    Config
	ctx    context.Context
	m      *model
	t      *terminal
	news   chan func()
	again  chan struct{}
	others sync.WaitGroup
}

// escapeTime is how long the reader waits after Escape for the rest of a key sequence.
const escapeTime = 50 * time.Millisecond

func (s *session) loop() error {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	second := time.NewTicker(time.Second) // keeps the displayed ages current
	defer second.Stop()
	lone := time.NewTimer(escapeTime)
	defer lone.Stop()
	var rest []byte
	for {
		if err := s.draw(); err != nil {
			return err
		}
		var keys []key
		select {
		case <-s.ctx.Done():
			return nil
		case b, ok := <-s.t.typed:
			if !ok {
				return errors.New("the terminal was closed")
			}
			keys, rest = decodeKeys(append(rest, b...), false)
			lone.Reset(escapeTime)
		case <-lone.C:
			keys, rest = decodeKeys(rest, true)
		case tell := <-s.news:
			tell()
		case <-second.C:
		case <-resized:
			s.t.forget()
		}
		for _, k := range keys {
			if leave, err := s.obey(s.m.press(k)); leave || err != nil {
				return err
			}
		}
	}
}

func (s *session) draw() error {
	s.m.view = s.cfg.View()
	s.m.width, s.m.height = s.t.size()
	f := s.m.draw()
	return s.t.draw(f.lines, f.row, f.column)
}

func (s *session) obey(w request) (leave bool, err error) {
	switch w {
	case quit:
		return true, nil
	case refresh:
		s.t.forget()
		s.lookAgain()
	case edit:
		return false, s.edit()
	case decide:
		s.decide()
	case claim:
		s.claim()
	}
	return false, nil
}

// look keeps the list up to date with the daemon.
func (s *session) look() {
	changed := make(chan struct{}, 1)
	s.others.Go(func() {
		for s.ctx.Err() == nil {
			_ = s.cfg.Daemon.Changed(s.ctx) // ignore the error: the next Waiting reports a persistent one
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	})
	lost := false
	for {
		calls, more, err := s.cfg.Daemon.Waiting(s.ctx)
		s.post(func() {
			switch {
			case err != nil:
				s.m.say(err.Error(), true)
			case lost:
				s.m.say("connected to the daemon again", false)
			}
			if lost = err != nil; !lost {
				s.m.list(calls, more)
			}
		})
		select {
		case <-s.ctx.Done():
			return
		case <-changed:
		case <-s.again:
		}
	}
}

func (s *session) lookAgain() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// post sends the loop a function to run.
func (s *session) post(news func()) {
	select {
	case s.news <- news:
	case <-s.ctx.Done():
	}
}

// decide sends the user's decision about the chosen ticket in the background, so that the user can continue meanwhile.
func (s *session) decide() {
	m, e, d := s.m, s.m.chosen(), s.m.decision
	if m.form != nil && len(m.form.words) > 0 {
		result, err := s.cfg.Answer(m.form.words, m.form.schema)
		if err != nil {
			m.say(err.Error(), true)
			return
		}
		d.Result = result
	}
	e.sent = true
	c := e.call // The list may replace e.call meanwhile.
	what := show.Line(c.GetTool())
	s.others.Go(func() {
		outcome, err := s.cfg.Daemon.Decide(s.ctx, c, d, func() {
			s.post(func() {
				m.answered(e, d)
				m.say(what+": "+taken(d), false)
			})
		})
		s.post(func() {
			e.sent = false
			if err != nil {
				m.say(what+": "+err.Error(), true)
			} else {
				m.say(what+": "+outcome, false)
			}
			s.lookAgain()
		})
	})
}

// claim says in the background that the user looks at the chosen ticket.
func (s *session) claim() {
	c := s.m.chosen().call
	s.others.Go(func() {
		text, alarm := show.Line(c.GetTool())+": you look at it; others see that", false
		if err := s.cfg.Daemon.Claim(s.ctx, c); err != nil {
			text, alarm = err.Error(), true
		}
		s.post(func() {
			s.m.say(text, alarm)
			s.lookAgain()
		})
	})
}

func taken(d *tooldv1.Decision) string {
	switch {
	case d.GetAction() == tooldv1.DecisionAction_DECISION_ACTION_CANCEL:
		return "declined"
	case d.GetResult() != "":
		return "answered"
	case d.GetArguments() != "":
		return "approved with your arguments"
	case d.GetRemember() != nil:
		return "approved and remembered"
	}
	return "approved"
}

// edit hands the terminal to an editor and takes it back afterwards.
func (s *session) edit() error {
	e := s.m.chosen()
	text := e.call.GetSuspension().GetPending().GetArguments()
	if isQuestion(e.call.GetSuspension()) {
		text = template(e.call.GetSuspension())
	}
	if err := s.t.give(); err != nil {
		return err
	}
	edited, err := s.cfg.Edit(s.ctx, text)
	if err := s.t.take(); err != nil {
		return err
	}
	if err != nil {
		s.m.say(err.Error(), true)
		return nil
	}
	s.m.edited(edited)
	return nil
}

// template returns the text from which the user edits an answer. If the tool itself gets the decision, it is the arguments of the call.
// Otherwise it has the members that the schema names, without values.
func template(s *tooldv1.Suspension) string {
	if s.GetResumeMode() == tooldv1.ResumeMode_RESUME_MODE_PASS_DECISION_TO_TOOL && s.GetPending().GetArguments() != "" {
		return s.GetPending().GetArguments()
	}
	text := ""
	for _, f := range newForm(s.GetResponseSchema()).fields {
		if f.name != "" {
			text += ", " + quoted(f.name) + ": null"
		}
	}
	if text == "" {
		return "null"
	}
	return "{" + text[2:] + "}"
}
