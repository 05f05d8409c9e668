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

// Config describes the daemon to play against.
type Config struct {
	Conn *grpc.ClientConn // must not add a token itself
	// Tokens maps the principals of the transcripts ([People]) to their tokens. A transcript that uses a principal without a token fails.
	Tokens map[string]string
	// Restart kills the daemon with SIGKILL if it runs, and starts it again on the same store and address. It need not wait until the
	// daemon serves. If Restart is nil, transcripts that need it fail.
	Restart func(ctx context.Context) error
	// Patience is how long to wait for an answer. 0 means 20 s.
	Patience time.Duration
}

// An Outcome is the result of playing a transcript.
type Outcome struct {
	Transcript string
	// Unmet lists requirements of the transcript that the daemon does not meet. Such a transcript is not played and counts as failed.
	Unmet []string
	// Line and Step say where the answer differed, Differs lists the differences, and Came is the whole answer.
	Line    int
	Step    string
	Differs []string
	Came    []string
	Took    time.Duration
}

// Passed reports whether the whole transcript was played and every answer matched.
func (o *Outcome) Passed() bool { return len(o.Unmet) == 0 && len(o.Differs) == 0 }

// Run plays a transcript. It returns an error only when ctx ended or the daemon cannot be reached. Wrong answers are in the Outcome.
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

// unmet returns the requirements of a transcript that the daemon or this machine does not meet.
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

// lacks returns why the daemon does not meet a requirement, or "" when it does.
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

// refused converts an error from the daemon to the reason lack. It returns the error itself when the daemon cannot be reached.
func refused(lack string, err error) (string, error) {
	switch st := status.Convert(err); st.Code() {
	case codes.OK, codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return "", err
	default:
		return fmt.Sprintf("%s, not %s: %s", lack, codeName(st.Code()), st.Message()), nil
	}
}

// restart kills the daemon and waits until it serves again. The principal of token must be allowed to watch the health service.
func (c *Config) restart(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, 6*c.patience())
	defer cancel()
	ended := c.lifeline(as(ctx, token))
	if err := c.Restart(ctx); err != nil {
		return fmt.Errorf("kill the daemon and start it again: %w", err)
	}
	select {
	case <-ended:
	case <-time.After(c.patience()):
		return errors.New("the daemon was not killed: a stream from before is still open")
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

// lifeline returns a channel that is closed when the daemon ends. It watches a stream, because a gRPC connection may reconnect to another
// daemon without an error.
func (c *Config) lifeline(ctx context.Context) <-chan struct{} {
	ended := make(chan struct{})
	stream, err := healthv1.NewHealthClient(c.Conn).Watch(ctx, &healthv1.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		close(ended)
		return ended
	}
	go func() { // ends with ctx at the latest
		defer close(ended)
		for err == nil {
			_, err = stream.Recv()
		}
	}()
	return ended
}

// Select returns the transcripts whose names contain one of the words. Without words it returns all.
func Select(all []*Transcript, words ...string) []*Transcript {
	if len(words) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(t *Transcript) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(t.Name, w) })
	})
}
