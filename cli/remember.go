package cli

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// rememberFlags holds the flags that say how an approval is kept.
type rememberFlags struct {
	option, scope string
	period        time.Duration
}

var rememberScopes = []string{"run", "thread", "namespace"}

func (f *rememberFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.option, "remember", "", "remember the approval for later calls; the value is the number or the text of an offer in the ticket")
	c.Flags().StringVar(&f.scope, "scope", "", "with --remember: run (the default when the call has one), thread, or namespace (operators)")
	c.Flags().DurationVar(&f.period, "for", 0, "with --remember: how long, such as 8h; at most 720h, 24h by default")
	_ = c.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions(rememberScopes, cobra.ShellCompDirectiveNoFileComp))
}

// of builds the request to keep an approval. It returns nil without --remember.
func (f *rememberFlags) of(call *tooldv1.Call, now time.Time) (*tooldv1.Remember, error) {
	if f.option == "" {
		if f.scope != "" || f.period != 0 {
			return nil, Usagef("--scope and --for require --remember")
		}
		return nil, nil
	}
	offered := call.GetSuspension().GetRememberOptions()
	if len(offered) == 0 {
		return nil, Usagef("the approval of this ticket cannot be remembered: each call requires an approval")
	}
	r := &tooldv1.Remember{Option: f.option}
	if i, err := strconv.Atoi(f.option); err == nil {
		if i < 1 || i > len(offered) {
			return nil, Usagef("--remember %d: the ticket offers 1 to %d", i, len(offered))
		}
		r.Option = offered[i-1].GetOption()
	}
	switch scope := cmp.Or(f.scope, narrowest(call.GetRun())); scope {
	case "run":
		r.Scope = tooldv1.RememberScope_REMEMBER_SCOPE_RUN
	case "thread":
		r.Scope = tooldv1.RememberScope_REMEMBER_SCOPE_THREAD
	case "namespace":
		r.Scope = tooldv1.RememberScope_REMEMBER_SCOPE_NAMESPACE
	case "":
		return nil, Usagef("the call belongs to no run and no thread; an operator can remember the approval with --scope namespace")
	default:
		return nil, Usagef("--scope %q is not one of %s", scope, strings.Join(rememberScopes, ", "))
	}
	if f.period < 0 {
		return nil, Usagef("--for %s: want a positive duration", f.period)
	}
	if f.period > 0 {
		r.Until = timestamppb.New(now.Add(f.period))
	}
	return r, nil
}

func narrowest(run *tooldv1.Run) string {
	switch {
	case run.GetRunId() != "":
		return "run"
	case run.GetThreadId() != "":
		return "thread"
	}
	return ""
}
