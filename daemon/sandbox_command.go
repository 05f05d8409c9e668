package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tools/shell"
)

func (a *app) sandboxCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "sandbox", Short: "Try out how commands are isolated on this machine",
		Long: `Tries isolation without a daemon, as the user who calls it. docs/sandbox.md says
what the profiles give.`,
		Example: "  toold sandbox check",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.sandboxCheckCommand(), a.sandboxRunCommand())
	return c
}

func (a *app) sandboxCheckCommand() *cobra.Command {
	var profile, namespace string
	c := &cobra.Command{
		Use: "check", Short: "Show what isolation holds, and why", Args: noArgs,
		Example: "  toold sandbox check\n  toold sandbox check --profile landlock -o json",
		Long: `Runs a canary under a profile, which tries what must not be possible, and shows
what holds. Exit code 1 when files, network or processes are not isolated as the
profile says.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.inSandbox(c, profile, namespace, func(ctx context.Context, r *sandbox.Runner, policy *sandbox.Policy) error {
				facts := r.Facts()
				if policy != nil {
					var err error
					if facts, err = r.Prove(ctx, *policy); err != nil {
						return err
					}
				}
				if a.output == formJSON {
					if err := json.NewEncoder(a.out).Encode(facts); err != nil {
						return err
					}
				} else {
					fmt.Fprint(a.out, facts)
				}
				if have := facts.MemLimit.Held && facts.PidsLimit.Held; policy != nil && !have {
					fmt.Fprintln(a.err, "Warning: memory and processes of a command are not bounded together. docs/sandbox.md says how to delegate a control group.")
				}
				if gives(facts, policy) {
					return nil
				}
				return ending(exitFailed)
			})
		},
	}
	c.Flags().StringVar(&profile, "profile", "", "profile to try; bash.profile when left out")
	c.Flags().StringVar(&namespace, "namespace", "", "namespace whose workspace is used, of those in workspaces")
	configFlags(c.Flags())
	a.outputFlag(c, formTable, formJSON)
	return c
}

// gives reports whether what a policy is for is held.
func gives(f sandbox.Facts, p *sandbox.Policy) bool {
	switch {
	case p == nil:
		return true // nothing was asked for
	case p.Unsupervised:
		return f.FSRead.Held && f.Net.Held // Landlock gives no more; a write of contents fails with the read
	}
	return f.FSRead.Held && f.FSWrite.Held && (f.Net.Held || p.Network == sandbox.NetworkOpen) && f.ProcessesKilled.Held
}

func (a *app) sandboxRunCommand() *cobra.Command {
	var profile, namespace string
	c := &cobra.Command{
		Use: "run [flags] -- COMMAND [ARGUMENT...]", Short: "Run a command under a profile",
		Example: "  toold sandbox run -- ls -la /\n  toold sandbox run --profile network -- curl -sI https://example.com",
		Long: `Runs a program in the workspace as bash would run it, with the environment of
bash. Exit code and output are the program's. Under a profile with the network
proxy, standard error also says what it reached and what was refused.`,
		Args: atLeast("a command"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.inSandbox(c, profile, namespace, func(ctx context.Context, r *sandbox.Runner, policy *sandbox.Policy) error {
				cfg, err := a.config(c)
				if err != nil {
					return err
				}
				dir, err := cfg.workspacePath(namespace)
				if err != nil {
					return err
				}
				path, err := exec.LookPath(args[0])
				if err != nil {
					return usageError{err}
				}
				if path, err = filepath.Abs(path); err != nil {
					return err
				}
				exit, err := r.Run(ctx, sandbox.Spec{
					Path: path, Args: args[1:], Dir: dir, Env: append(shell.DefaultEnv(), cfg.Bash.Env...), Home: sandbox.FreshHome, Stdin: a.in, Policy: policy, Output: a.copyOut,
				})
				if err != nil {
					return err
				}
				if why := exit.OutOfMemory(); why != "" {
					return codedError{errors.New("out of memory: " + why), exitFailed}
				}
				if exit.Signal != "" {
					return codedError{fmt.Errorf("ended by %s", exit.Signal), exitFailed}
				}
				if exit.Code != 0 {
					return ending(exit.Code)
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&profile, "profile", "", "profile to run under; bash.profile when left out")
	c.Flags().StringVar(&namespace, "namespace", "", "namespace whose workspace is used, of those in workspaces")
	configFlags(c.Flags())
	return c
}

func (a *app) copyOut(stream string, chunk []byte) error {
	to := io.Writer(a.out)
	if stream == "stderr" {
		to = a.err
	}
	_, err := to.Write(chunk)
	return err
}

// inSandbox makes a runner for one command line.
func (a *app) inSandbox(c *cobra.Command, profile, namespace string, do func(context.Context, *sandbox.Runner, *sandbox.Policy) error) error {
	cfg, err := a.config(c)
	if err != nil {
		return err
	}
	if profile == "" {
		profile = cfg.Bash.Profile
	}
	w, err := openWorkspace(cfg, namespace)
	if err != nil {
		return err
	}
	defer w.root.Close()
	policy, err := cfg.policy(profile, w.path)
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "toold-sandbox")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	if err := sandbox.BecomeSubreaper(); err != nil {
		return err
	}
	r, err := sandbox.New(sandbox.Config{Owner: filepath.Base(state), StateDir: state, Helper: helperPath(), Gateway: gatewayTo(a.err), ControlGroup: cfg.Sandbox.ControlGroup})
	if err != nil {
		return err
	}
	defer r.Close()
	return do(c.Context(), r, policy)
}
