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

	"github.com/toold-dev/toold/cli/show"
	"github.com/toold-dev/toold/conformance"
)

func (a *app) conformanceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "conformance",
		Short: "Hold a running daemon to the behaviour of the API",
		Long: `Plays transcripts of the API against a running daemon: what is asked for, and
what has to come back. conformance/README.md describes them.

The daemon needs a configuration in which the transcripts find what they ask
for; "toold conformance config" writes one. Calls write into its workspace, so
give it one of its own.`,
		Example: `  toold conformance config conf
  toold serve --config conf/toold.yaml --data conf/data --listen-tcp :7131
  toold conformance run 127.0.0.1:7131 --tokens conf/tokens.json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.conformanceRunCommand(), a.conformanceListCommand(), a.conformanceConfigCommand())
	return c
}

// conformanceFlags are what run plays, and how.
type conformanceFlags struct {
	only            []string
	tokens, restart string
	patience        time.Duration
}

func (a *app) conformanceRunCommand() *cobra.Command {
	var f conformanceFlags
	c := &cobra.Command{
		Use:   "run [ADDRESS]",
		Short: "Play the transcripts, and say what differs",
		Long: `Plays the transcripts one after the other and ends with 1 when anything fails.
What a transcript needs and the daemon does not have is a failure, too.

Some transcripts kill the daemon in the middle of a call. They need --restart: a
command of the shell that kills the daemon as kill -9 does, if it still lives,
and starts it again on the same store and address. It may return before the
daemon serves.`,
		Example: `  toold conformance run 127.0.0.1:7131 --tokens conf/tokens.json
  toold conformance run --tokens conf/tokens.json --only batch,approve -o json
  toold conformance run toold.internal:7130 --tls --tokens conf/tokens.json \
    --restart './kill-and-start.sh'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s takes one ADDRESS", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				a.connection.address = args[0]
			}
			return a.runConformance(c.Context(), &f)
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "transcripts whose names contain one of these")
	flags.StringVar(&f.tokens, "tokens", "", `file of the people's tokens, from "toold conformance config"; required`)
	flags.StringVar(&f.restart, "restart", "", "shell command that kills the daemon and starts it again")
	flags.DurationVar(&f.patience, "patience", 20*time.Second, "how long to wait for an answer")
	a.outputFlag(c, formTable, formJSON, formJSONL)
	return c
}

func (a *app) runConformance(ctx context.Context, f *conformanceFlags) error {
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
		return usagef("no transcript is called %s; toold conformance list lists them", strings.Join(f.only, " or "))
	}
	conn, err := a.connect(true)
	if err != nil {
		return err
	}
	defer conn.Close()
	config := conformance.Config{Conn: conn, Tokens: tokens, Patience: f.patience}
	if f.restart != "" {
		config.Restart = func(ctx context.Context) error { return a.restartDaemon(ctx, f.restart) }
	}
	var outcomes []*conformance.Outcome
	for _, t := range chosen {
		out, err := conformance.Run(ctx, config, t)
		if err != nil {
			return err
		}
		outcomes = append(outcomes, out)
		if err := a.tellOutcome(t, out); err != nil {
			return err
		}
	}
	return a.tellOutcomes(outcomes)
}

func (f *conformanceFlags) readTokens() (map[string]string, error) {
	if f.tokens == "" {
		return nil, usagef("--tokens FILE is missing: the transcripts are played by several people; toold conformance config makes it")
	}
	text, err := os.ReadFile(f.tokens)
	if err != nil {
		return nil, usagef("tokens: %w", err)
	}
	var tokens map[string]string
	if err := json.Unmarshal(text, &tokens); err != nil {
		return nil, usagef("tokens: %s: %w", f.tokens, err)
	}
	return tokens, nil
}

func (a *app) restartDaemon(ctx context.Context, command string) error {
	c := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	c.Stdout, c.Stderr, c.Env = a.err, a.err, a.environ
	c.WaitDelay = time.Second // the daemon may have got hold of our standard error
	if err := c.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("--restart: %w", err)
	}
	return nil
}

// tellOutcome shows one as it comes, unless all are one list.
func (a *app) tellOutcome(t *conformance.Transcript, o *conformance.Outcome) error {
	if a.output == formJSONL {
		return json.NewEncoder(a.out).Encode(shownOutcome(o))
	}
	if a.output != formTable {
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
			fmt.Fprintf(&b, "        came: %s\n", show.Line(l))
		}
		for _, h := range t.Hints {
			fmt.Fprintf(&b, "        it counts on: %s\n", h)
		}
	}
	_, err := a.out.Write([]byte(b.String()))
	return err
}

func (a *app) tellOutcomes(all []*conformance.Outcome) error {
	failed := 0
	shown := []map[string]any{}
	for _, o := range all {
		if shown = append(shown, shownOutcome(o)); !o.Passed() {
			failed++
		}
	}
	var err error
	switch a.output {
	case formJSON:
		e := json.NewEncoder(a.out)
		e.SetIndent("", "  ")
		err = e.Encode(shown)
	case formTable:
		_, err = fmt.Fprintf(a.out, "%d passed, %d failed\n", len(all)-failed, failed)
	}
	if err == nil && failed > 0 {
		return ending(exitFailed)
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

func (a *app) conformanceListCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the transcripts and what they guard", Args: noArgs,
		Example: "  toold conformance list\n  toold conformance list -o json | jq -r '.[].ends[]?'",
		RunE: func(*cobra.Command, []string) error {
			all, err := conformance.All()
			if err != nil {
				return err
			}
			return a.listConformance(all)
		},
	}
	a.outputFlag(c, formTable, formJSON)
	return c
}

func (a *app) listConformance(all []*conformance.Transcript) error {
	if a.output == formJSON {
		shown := []map[string]any{}
		for _, t := range all {
			shown = append(shown, map[string]any{"transcript": t.Name, "about": t.About, "ends": append([]string{}, t.Ends...), "kills_daemon": t.Crashes()})
		}
		e := json.NewEncoder(a.out)
		e.SetIndent("", "  ")
		return e.Encode(shown)
	}
	for _, t := range all {
		mark := ""
		if t.Crashes() {
			mark = " [--restart]"
		}
		if _, err := fmt.Fprintf(a.out, "%-28s %s%s\n", t.Name, t.About, mark); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) conformanceConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "config DIRECTORY",
		Short: "Write the configuration with which a daemon passes",
		Long: `Writes toold.yaml and rules.yaml for a daemon, and tokens.json for "toold
conformance run", with new tokens. Files that are there are kept, and it fails.`,
		Example: "  toold conformance config conf",
		Args:    exactArgs("DIRECTORY"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return a.writeConformance(dir)
		},
	}
}

func (a *app) writeConformance(dir string) error {
	files, err := conformance.Configuration(filepath.Join(dir, conformance.RulesFile))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	names := []string{conformance.DaemonFile, conformance.RulesFile, conformance.TokensFile}
	if i := slices.IndexFunc(names, func(n string) bool { _, err := os.Lstat(filepath.Join(dir, n)); return err == nil }); i >= 0 {
		return fmt.Errorf("%s is there already", filepath.Join(dir, names[i]))
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, files[name], 0o600); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.out, path); err != nil {
			return err
		}
	}
	return nil
}
