package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/cli/show"
	"github.com/toold-dev/toold/conformance"
)

func conformanceCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "conformance",
		Short: "Check that a running daemon behaves as the API requires",
		Long: `Plays transcripts of the API against a running daemon. A transcript contains
requests and the answers that the daemon must give. conformance/README.md
describes the format.

The daemon needs the configuration that "toold conformance config" writes. The
transcripts make calls that write into the workspace of the daemon, so use a
separate workspace.`,
		Example: `  toold conformance config conf
  toold serve --config conf/toold.yaml --data conf/data --listen-tcp :7140
  toold conformance run 127.0.0.1:7140 --tokens conf/tokens.json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(conformanceRunCommand(a), conformanceListCommand(a), conformanceConfigCommand(a))
	return c
}

// conformanceFlags are the flags of run.
type conformanceFlags struct {
	only            []string
	tokens, restart string
	patience        time.Duration
}

func conformanceRunCommand(a *cli.App) *cobra.Command {
	var f conformanceFlags
	c := &cobra.Command{
		Use:   "run [ADDRESS]",
		Short: "Play the transcripts and print the differences",
		Long: `Plays the transcripts one after the other. The exit code is 1 when a transcript
fails. A transcript also fails when the daemon does not meet a requirement of
the transcript (a line "needs:").

Some transcripts kill the daemon in the middle of a call. They need --restart, a
shell command. It kills the daemon as kill -9 does, if the daemon still runs,
and starts it again on the same store and address. The command may return before
the daemon serves.`,
		Example: `  toold conformance run 127.0.0.1:7140 --tokens conf/tokens.json
  toold conformance run --tokens conf/tokens.json --only batch,approve -o json
  toold conformance run toold.internal:7130 --tls --tokens conf/tokens.json \
    --restart './kill-and-start.sh'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("%s takes one ADDRESS", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return runConformance(c.Context(), a, &f, args)
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "play only transcripts whose names contain one of these texts")
	flags.StringVar(&f.tokens, "tokens", "", `file tokens.json that "toold conformance config" wrote; required`)
	flags.StringVar(&f.restart, "restart", "", "shell command that kills the daemon and starts it again")
	flags.DurationVar(&f.patience, "patience", 20*time.Second, "longest time to wait for an answer")
	a.OutputFlag(c, cli.FormTable, cli.FormJSON, cli.FormJSONL)
	return c
}

func runConformance(ctx context.Context, a *cli.App, f *conformanceFlags, args []string) error {
	tokens, err := f.readTokens()
	if err != nil {
		return err
	}
	all, err := conformance.All()
	if err != nil {
		return err
	}
	chosen := conformance.Select(all, f.only...)
	if len(chosen) == 0 {
		return cli.Usagef("no transcript is called %s; toold conformance list lists them", strings.Join(f.only, " or "))
	}
	conn, err := a.DialAt(strings.Join(args, "")) // args has at most one element
	if err != nil {
		return err
	}
	defer conn.Close()
	config := conformance.Config{Conn: conn, Tokens: tokens, Patience: f.patience}
	if f.restart != "" {
		config.Restart = func(ctx context.Context) error { return restartDaemon(ctx, a, f.restart) }
	}
	var outcomes []*conformance.Outcome
	for _, t := range chosen {
		out, err := conformance.Run(ctx, config, t)
		if err != nil {
			return err
		}
		outcomes = append(outcomes, out)
		if err := printOutcome(a, t, out); err != nil {
			return err
		}
	}
	return printOutcomes(a, outcomes)
}

func (f *conformanceFlags) readTokens() (map[string]string, error) {
	if f.tokens == "" {
		return nil, cli.Usagef("--tokens FILE is missing: the transcripts need the tokens of several principals; toold conformance config writes this file")
	}
	text, err := os.ReadFile(f.tokens)
	if err != nil {
		return nil, cli.Usagef("tokens: %w", err)
	}
	var tokens map[string]string
	if err := json.Unmarshal(text, &tokens); err != nil {
		return nil, cli.Usagef("tokens: %s: %w", f.tokens, err)
	}
	return tokens, nil
}

func restartDaemon(ctx context.Context, a *cli.App, command string) error {
	c := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	c.Stdout, c.Stderr, c.Env = a.Err, a.Err, a.Environ
	c.WaitDelay = time.Second // Without this delay, Wait could block: a daemon that the command left behind may hold standard error open.
	if err := c.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("--restart: %w", err)
	}
	return nil
}

// printOutcome prints an outcome as soon as it is known. It prints nothing when all outcomes are printed later as one list.
func printOutcome(a *cli.App, t *conformance.Transcript, o *conformance.Outcome) error {
	if a.Output == cli.FormJSONL {
		return json.NewEncoder(a.Out).Encode(shownOutcome(o))
	}
	if a.Output != cli.FormTable {
		return nil
	}
	var b strings.Builder
	verdict := "ok    "
	if !o.Passed() {
		verdict = "FAILED"
	}
	fmt.Fprintf(&b, "%s  %-28s %5.1fs\n", verdict, t.Name, o.Took.Seconds())
	for _, n := range o.Unmet {
		fmt.Fprintf(&b, "        needs %s\n", show.Line(n))
	}
	if len(o.Unmet) > 0 && t.Crashes() {
		fmt.Fprintf(&b, "        (--restart COMMAND kills the daemon and starts it again)\n")
	}
	if len(o.Differs) > 0 {
		fmt.Fprintf(&b, "        %s.txt:%d, %s\n", t.Name, o.Line, o.Step)
		for _, d := range o.Differs {
			fmt.Fprintf(&b, "        %s\n", show.Line(d))
		}
		for _, l := range o.Came {
			fmt.Fprintf(&b, "        received: %s\n", show.Line(l))
		}
		for _, h := range t.Hints {
			fmt.Fprintf(&b, "        it assumes: %s\n", h)
		}
	}
	_, err := a.Out.Write([]byte(b.String()))
	return err
}

func printOutcomes(a *cli.App, all []*conformance.Outcome) error {
	failed := 0
	shown := []map[string]any{}
	for _, o := range all {
		if shown = append(shown, shownOutcome(o)); !o.Passed() {
			failed++
		}
	}
	var err error
	switch a.Output {
	case cli.FormJSON:
		e := json.NewEncoder(a.Out)
		e.SetIndent("", "  ")
		err = e.Encode(shown)
	case cli.FormTable:
		_, err = fmt.Fprintf(a.Out, "%d passed, %d failed\n", len(all)-failed, failed)
	}
	if err == nil && failed > 0 {
		return cli.Exit(cli.ExitFailed)
	}
	return err
}

func shownOutcome(o *conformance.Outcome) map[string]any {
	shown := map[string]any{"transcript": o.Transcript, "passed": o.Passed(), "seconds": o.Took.Seconds()}
	if len(o.Unmet) > 0 {
		shown["needs"] = o.Unmet
	}
	if len(o.Differs) > 0 {
		shown["line"], shown["step"], shown["differs"], shown["came"] = o.Line, o.Step, o.Differs, o.Came
	}
	return shown
}

func conformanceListCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the transcripts and their checks", Args: cli.NoArgs,
		Example: "  toold conformance list\n  toold conformance list -o json | jq -r '.[].ends[]?'",
		RunE: func(*cobra.Command, []string) error {
			all, err := conformance.All()
			if err != nil {
				return err
			}
			return listConformance(a, all)
		},
	}
	a.OutputFlag(c, cli.FormTable, cli.FormJSON)
	return c
}

func listConformance(a *cli.App, all []*conformance.Transcript) error {
	if a.Output == cli.FormJSON {
		shown := []map[string]any{}
		for _, t := range all {
			shown = append(shown, map[string]any{"transcript": t.Name, "about": t.About, "ends": append([]string{}, t.Ends...), "kills_daemon": t.Crashes()})
		}
		e := json.NewEncoder(a.Out)
		e.SetIndent("", "  ")
		return e.Encode(shown)
	}
	for _, t := range all {
		mark := ""
		if t.Crashes() {
			mark = " [--restart]"
		}
		if _, err := fmt.Fprintf(a.Out, "%-28s %s%s\n", t.Name, t.About, mark); err != nil {
			return err
		}
	}
	return nil
}

func conformanceConfigCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "config DIRECTORY",
		Short: "Write a configuration that the transcripts expect",
		Long: `Writes toold.yaml and rules.yaml for a daemon, and tokens.json for "toold
conformance run", with new tokens. It fails when one of the files exists.`,
		Example: "  toold conformance config conf",
		Args:    cli.ExactArgs("DIRECTORY"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return writeConformance(a, dir)
		},
	}
}

func writeConformance(a *cli.App, dir string) error {
	files, err := conformance.Configuration(filepath.Join(dir, conformance.RulesFile))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	names := []string{conformance.DaemonFile, conformance.RulesFile, conformance.TokensFile}
	if i := slices.IndexFunc(names, func(n string) bool { _, err := os.Lstat(filepath.Join(dir, n)); return err == nil }); i >= 0 {
		return fmt.Errorf("%s exists already", filepath.Join(dir, names[i]))
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, files[name], 0o600); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.Out, path); err != nil {
			return err
		}
	}
	return nil
}
