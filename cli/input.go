package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func inputCommand(a *App) *cobra.Command {
	var keepOpen bool
	var signal, resize string
	c := &cobra.Command{
		Use:   "input CALL",
		Short: "Send standard input to a running call",
		Long: `Sends standard input to a running call that accepts input (bash with input or
pty), and closes the input of the call at the end. The call receives each byte
once, also when the connection breaks. With --signal or --resize the command
does not read standard input.

If you are on a terminal and the call has a terminal too (bash with pty), the
command attaches your terminal to the call:

- All keys go to the call, also ctrl-C.
- You see the output of the call from its beginning.
- The terminal of the call gets the size of your terminal.
- ctrl-] d detaches; the call continues. ctrl-] ctrl-] sends ctrl-] to the call.

The output of the call reaches your terminal unchanged, with its control
sequences. From output that is older than the attachment, the command removes
the sequences that the terminal would answer.`,
		Example: "  toold input CALL\n  echo yes | toold input CALL\n  toold input CALL --signal INT\n  printf '\\003' | toold input CALL --keep-open",
		Args:    ExactArgs("a CALL"), ValidArgsFunction: a.completeCalls,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			t := typist{ctx: ctx, c: c, id: args[0]}
			if signal == "" && resize == "" {
				return typeInto(a, &t, keepOpen)
			}
			req := &tooldv1.SendInputRequest{}
			if signal != "" {
				s, ok := signalsByName()[strings.TrimPrefix(strings.ToUpper(signal), "SIG")]
				if !ok {
					return Usagef("--signal %s: want INT, QUIT, TERM, HUP, TSTP, CONT, USR1 or USR2", signal)
				}
				req.Signal = &s
			}
			if resize != "" {
				size := &tooldv1.TerminalSize{}
				if _, err := fmt.Sscanf(resize, "%dx%d", &size.Rows, &size.Columns); err != nil {
					return Usagef("--resize %s: want ROWSxCOLUMNS, such as 24x80", resize)
				}
				req.Resize = size
			}
			if err := t.begin(); err != nil {
				return err
			}
			return t.send(req)
		}),
	}
	c.Flags().BoolVar(&keepOpen, "keep-open", false, "do not close the input of the call at the end")
	c.Flags().StringVar(&signal, "signal", "", "send this signal to the call, such as INT")
	c.Flags().StringVar(&resize, "resize", "", "set the size of the call's terminal, as ROWSxCOLUMNS")
	return c
}

// typeInto attaches to the call if this process and the call both have a terminal. Otherwise it copies standard input.
func typeInto(a *App, t *typist, keepOpen bool) error {
	if in, out, ok := a.terminal(); ok && !keepOpen {
		got, err := t.c.calls.GetCall(t.ctx, &tooldv1.GetCallRequest{CallId: t.id})
		if err != nil {
			return err
		}
		if hasTerminal(got.GetCall()) {
			return attach(t.ctx, a, t, in, out)
		}
	}
	return t.copy(a.In, keepOpen)
}

func signalsByName() map[string]tooldv1.InputSignal {
	return map[string]tooldv1.InputSignal{
		"INT": tooldv1.InputSignal_INPUT_SIGNAL_INTERRUPT, "QUIT": tooldv1.InputSignal_INPUT_SIGNAL_QUIT,
		"TERM": tooldv1.InputSignal_INPUT_SIGNAL_TERMINATE, "HUP": tooldv1.InputSignal_INPUT_SIGNAL_HANGUP,
		"TSTP": tooldv1.InputSignal_INPUT_SIGNAL_STOP, "CONT": tooldv1.InputSignal_INPUT_SIGNAL_CONTINUE,
		"USR1": tooldv1.InputSignal_INPUT_SIGNAL_USER_1, "USR2": tooldv1.InputSignal_INPUT_SIGNAL_USER_2,
	}
}

// A typist sends input to a call, starting at the call's current input position.
type typist struct {
	ctx      context.Context
	c        *client
	id       string
	position int64
	attempt  int32
}

func (t *typist) begin() error {
	state, err := t.c.calls.SendInput(t.ctx, &tooldv1.SendInputRequest{CallId: t.id})
	if err != nil {
		return err
	}
	t.position, t.attempt = state.GetPosition(), state.GetAttempt()
	return nil
}

// send repeats a request until the daemon confirms it. Repeating is safe because the request carries its input position.
func (t *typist) send(req *tooldv1.SendInputRequest) error {
	req.CallId, req.Position, req.Attempt = t.id, &t.position, t.attempt
	const patience = 30 * time.Second
	for pause, waited := 50*time.Millisecond, time.Duration(0); ; pause = min(2*pause, time.Second) {
		state, err := t.c.calls.SendInput(t.ctx, req)
		if err == nil {
			t.position = state.GetPosition()
			return nil
		}
		again := status.Code(err) == codes.ResourceExhausted || status.Code(err) == codes.Unavailable && waited < patience
		if !again {
			return err
		}
		sleep(t.ctx, pause)
		waited += pause
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
	}
}

func (t *typist) copy(in io.Reader, keepOpen bool) error {
	if err := t.begin(); err != nil {
		return err
	}
	buf := make([]byte, 16<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if err := t.send(&tooldv1.SendInputRequest{Data: buf[:n]}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) && keepOpen:
			return nil
		case errors.Is(err, io.EOF):
			return t.send(&tooldv1.SendInputRequest{EndOfInput: true})
		case err != nil:
			return err
		}
	}
}
