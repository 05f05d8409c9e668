package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Config says which daemon is played against.
type Config struct {
	Conn *grpc.ClientConn // sends no token of its own
	// Tokens of the people of the transcripts; see [People]. A transcript with a person without a token fails.
	Tokens map[string]string
	// Restart kills the daemon as kill -9 does, if it lives, starts it again on the same store and address, and returns
	// soon; that it serves again is waited for. Nil: transcripts that need it fail.
	Restart func(ctx context.Context) error
	// Patience is for how long an answer is waited for; 0 is 20 s.
	Patience time.Duration
}

// An Outcome is what became of a transcript.
type Outcome struct {
	Transcript string
	// Unmet is what the transcript needs and the daemon does not have. It was not played then, and that is a failure.
	Unmet []string
	// Line and Step are where it differed, Differs says in what, and Came is all of the answer.
	Line    int
	Step    string
	Differs []string
	Came    []string
	Took    time.Duration
}

// Passed reports whether all of the transcript was played and came as it says.
func (o *Outcome) Passed() bool { return len(o.Unmet) == 0 && len(o.Differs) == 0 }

// Run plays a transcript. An error means that ctx ended or that the daemon cannot be reached, nothing about what it does.
func Run(ctx context.Context, c Config, t *Transcript) (*Outcome, error) {
	began := time.Now()
	out := &Outcome{Transcript: t.Name}
	defer func() { out.Took = time.Since(began) }()
	var err error
	if out.Unmet, err = c.unmet(ctx, t); err != nil || len(out.Unmet) > 0 {
		return out, err
	}
	p := newPlayer(&c, t)
	defer p.close()
	for i := range t.steps {
		err := p.play(ctx, &t.steps[i])
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		out.Line, out.Step, out.Differs = t.steps[i].line, t.steps[i].String(), []string{err.Error()}
		if m, ok := errors.AsType[*mismatch](err); ok {
			out.Differs, out.Came = m.differs, m.came
		}
		return out, nil
	}
	return out, nil
}

func (c *Config) patience() time.Duration {
	if c.Patience == 0 {
		return 20 * time.Second
	}
	return c.Patience
}

// unmet says what a transcript needs and the daemon, or this machine, does not have.
func (c *Config) unmet(ctx context.Context, t *Transcript) (unmet []string, err error) {
	for _, u := range t.users() {
		if c.Tokens[u] == "" {
			unmet = append(unmet, "the token of "+u)
		}
	}
	if t.Crashes() && c.Restart == nil {
		unmet = append(unmet, "a command that kills the daemon and starts it again")
	}
	if len(unmet) > 0 {
		return unmet, nil
	}
	for _, n := range t.Needs {
		lack, err := c.lacks(ctx, n, t.users())
		if err != nil {
			return nil, err
		}
		if lack != "" {
			unmet = append(unmet, lack)
		}
	}
	return unmet, nil
}

// lacks says what the daemon lacks of a need; empty is nothing.
func (c *Config) lacks(ctx context.Context, n Need, users []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	if n.User == "" {
		ctx = as(ctx, c.Tokens[users[0]])
		_, err := tooldv1.NewToolServiceClient(c.Conn).GetTool(ctx, &tooldv1.GetToolRequest{Tool: n.Tool}, grpc.WaitForReady(true))
		if status.Code(err) == codes.NotFound {
			return "the tool " + n.Tool, nil
		}
		return refused("an answer of GetTool to "+users[0], err)
	}
	ctx = as(ctx, c.Tokens[n.User])
	spec := &tooldv1.CallSpec{Tool: n.Tool, Arguments: n.Arguments}
	got, err := tooldv1.NewCallServiceClient(c.Conn).DescribeCall(ctx, &tooldv1.DescribeCallRequest{Spec: spec}, grpc.WaitForReady(true))
	if err != nil {
		if st := status.Code(err); st == codes.Unauthenticated || st == codes.PermissionDenied {
			return "a token of " + n.User + " that may call tools: " + status.Convert(err).Message(), nil
		}
		return refused("an answer of DescribeCall to "+n.User, err)
	}
	outcome := strings.TrimPrefix(got.GetOutcome().String(), "VERDICT_ACTION_")
	if !got.GetValid() {
		outcome = strings.TrimPrefix(got.GetError().GetCode().String(), "ERROR_CODE_")
	}
	if outcome != n.Outcome {
		return fmt.Sprintf("rules that say %s when %s calls %s with %s, not %s", n.Outcome, n.User, n.Tool, n.Arguments, outcome), nil
	}
	return "", nil
}

// refused says what an error means that a daemon answered; that it cannot be reached stays an error.
func refused(lack string, err error) (string, error) {
	switch st := status.Convert(err); st.Code() {
	case codes.OK, codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return "", err
	default:
		return fmt.Sprintf("%s, not %s: %s", lack, codeName(st.Code()), st.Message()), nil
	}
}

// restart kills the daemon and waits until it serves again. The token must allow its holder to watch its health.
func (c *Config) restart(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, 6*c.patience())
	defer cancel()
	gone := c.lifeline(as(ctx, token))
	if err := c.Restart(ctx); err != nil {
		return fmt.Errorf("kill the daemon and start it again: %w", err)
	}
	select {
	case <-gone:
	case <-time.After(c.patience()):
		return errors.New("the daemon was not killed: a stream from before still lives")
	}
	for {
		c.Conn.ResetConnectBackoff()
		got, err := healthv1.NewHealthClient(c.Conn).Check(ctx, &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true))
		if err == nil && got.GetStatus() == healthv1.HealthCheckResponse_SERVING {
			return nil
		}
		if err != nil && status.Code(err) != codes.Unavailable {
			return fmt.Errorf("the daemon does not serve again: %w", err)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("the daemon does not serve again: %w", err)
		}
	}
}

// lifeline returns what is closed when the daemon is gone, as it may be already. A stream shows it: one connection may lead to many
// daemons, by and by.
func (c *Config) lifeline(ctx context.Context) <-chan struct{} {
	gone := make(chan struct{})
	stream, err := healthv1.NewHealthClient(c.Conn).Watch(ctx, &healthv1.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		close(gone)
		return gone
	}
	go func() { // ends with ctx at the latest
		defer close(gone)
		for err == nil {
			_, err = stream.Recv()
		}
	}()
	return gone
}

// Select returns the transcripts whose names contain one of the words; no words are all.
func Select(all []*Transcript, words ...string) []*Transcript {
	if len(words) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(t *Transcript) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(t.Name, w) })
	})
}
