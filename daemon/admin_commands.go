package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func (a *app) infoCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "info", Short: "Show what the daemon is, where it listens and what it holds", Example: "  toold info -o json", Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			got, err := c.admin.GetInfo(ctx, &tooldv1.GetInfoRequest{})
			if err != nil {
				return err
			}
			return a.print(got, a.outView().Info(got))
		}),
	}
	a.outputFlag(c, formTable, formJSON, formJSONL)
	return c
}

func (a *app) healthCommand() *cobra.Command {
	var service string
	var timeout time.Duration
	c := &cobra.Command{
		Use: "health", Short: "Exit with 0 when the daemon serves", Example: "  toold health --timeout 1s", Args: noArgs,
		Long: `Asks the daemon whether it serves: exit code 0 when it does, 9 when it starts or
drains, 4 when nobody answers. For health checks of containers and load
balancers.`,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			got, err := c.health.Check(ctx, &healthv1.HealthCheckRequest{Service: service})
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return codedError{fmt.Errorf("no answer from %s within %v", a.connection.used, timeout), exitUnreachable}
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(a.out, got.GetStatus())
			if got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
				return ending(exitBusy)
			}
			return nil
		}),
	}
	c.Flags().StringVar(&service, "service", "", "one service, such as toold.v1.CallService; empty is all of it")
	c.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "the longest to wait")
	return c
}

func (a *app) reloadCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "reload", Short: "Make the daemon read rules and configuration again", Example: "  toold reload", Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			got, err := c.admin.Reload(ctx, &tooldv1.ReloadRequest{})
			if err != nil {
				return err
			}
			text := "nothing changed\n"
			if len(got.GetChanged()) > 0 {
				text = "changed: " + show.Line(strings.Join(got.GetChanged(), ", ")) + "\n"
			}
			if len(got.GetNeedsRestart()) > 0 {
				text += "holds after a restart only: " + show.Line(strings.Join(got.GetNeedsRestart(), ", ")) + "\n"
			}
			return a.print(got, text)
		}),
	}
	a.outputFlag(c, formTable, formJSON, formJSONL)
	return c
}

func (a *app) drainCommand() *cobra.Command {
	var period time.Duration
	c := &cobra.Command{
		Use: "drain", Short: "Make the daemon finish what runs and stop", Example: "  toold drain --period 1m", Args: noArgs,
		Long: `The daemon takes no new calls, lets running ones end within the period, keeps
what waits for a decision, and stops. The command returns when the drain has
begun.`,
	}
	c.Flags().DurationVar(&period, "period", 0, "how long running calls may take; 0 ends them at once (default: as configured)")
	c.RunE = a.withClient(func(ctx context.Context, client *client, _ []string) error {
		request := &tooldv1.DrainRequest{}
		if c.Flags().Changed("period") {
			request.Period = durationpb.New(period)
		}
		got, err := client.admin.Drain(ctx, request)
		if err != nil {
			return err
		}
		left := show.Duration(max(got.GetDeadline().AsTime().Sub(a.now()), 0))
		return a.print(got, fmt.Sprintf("draining: %d calls run, stopped in %s at the latest\n", got.GetRunning(), left))
	})
	a.outputFlag(c, formTable, formJSON, formJSONL)
	return c
}

func (a *app) logLevelCommand() *cobra.Command {
	levels := []string{"debug", "info", "warn", "error"}
	c := &cobra.Command{
		Use: "log-level debug|info|warn|error", Short: "Change what the running daemon logs", Args: exactArgs("a LEVEL: debug, info, warn or error"),
		Long: `Changes the least that the daemon writes to its log, until it is changed again
or the daemon ends; log.level of the configuration is what a start begins with.
Needs the role operator.`,
		Example:           "  toold log-level debug",
		ValidArgsFunction: cobra.FixedCompletions(levels, cobra.ShellCompDirectiveNoFileComp),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			level := slices.Index(levels, strings.ToLower(args[0])) + 1
			if level == 0 {
				return usagef("%q is not one of %s", args[0], strings.Join(levels, ", "))
			}
			got, err := c.admin.SetLogLevel(ctx, &tooldv1.SetLogLevelRequest{Level: tooldv1.LogLevel(level)})
			if err != nil {
				return err
			}
			text := levels[level-1] + "\n"
			if before := int(got.GetPrevious()); before > 0 && before <= len(levels) {
				text = levels[before-1] + " → " + text
			}
			return a.print(got, text)
		}),
	}
	a.outputFlag(c, formTable, formJSON, formJSONL)
	return c
}

func (a *app) tokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "token", Short: "Print where the token is", Args: noArgs,
		Long: `Prints the file of the token that the daemon made on its first start. The
command line finds it by itself; other clients send its content as
"authorization: Bearer …".`,
		Example: `  grpcurl -H "authorization: Bearer $(cat $(toold token))" …`,
		RunE: func(*cobra.Command, []string) error {
			file, err := filepath.Abs(filepath.Join(a.dataDir(), tokenName))
			if err != nil {
				return err
			}
			fmt.Fprintln(a.out, file)
			if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
				return codedError{errors.New("it is not there yet: the daemon makes it on its first start; is --data right?"), exitNotFound}
			}
			return nil
		},
	}
	c.AddCommand(&cobra.Command{
		Use: "hash", Short: "Read a token and print its hash for auth.tokens", Args: noArgs,
		Long: `Reads a token from standard input and prints the hash that auth.tokens of the
configuration wants. The token itself is stored nowhere.`,
		Example: "  openssl rand -hex 32 | tee token.txt | toold token hash",
		RunE: func(*cobra.Command, []string) error {
			text, err := readAtMost(a.in, 4096)
			if err != nil {
				return err
			}
			token := strings.TrimSpace(text)
			if len(token) < 32 || strings.ContainsAny(token, " \t\r\n") {
				return usagef("a token is one word of at least 32 random characters, such as: openssl rand -hex 32")
			}
			sum := sha256.Sum256([]byte(token))
			fmt.Fprintln(a.out, hashPrefix+hex.EncodeToString(sum[:]))
			return nil
		},
	})
	return c
}
