package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/isolation"
	"github.com/toold-dev/toold/tools/shell"
)

func sandboxCommand(a *cli.App, o options) *cobra.Command {
	c := &cobra.Command{
		Use: "sandbox", Short: "Test the isolation of commands on this machine",
		Long: `Tests the isolation without a daemon, with the rights of the user who runs the
command. docs/explanation/isolation.md describes the profiles.`,
		Example: "  toold sandbox check",
		Args:    cli.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(sandboxCheckCommand(a, o.helper), sandboxRunCommand(a, o.helper))
	return c
}

func sandboxCheckCommand(a *cli.App, helper string) *cobra.Command {
	var profile, namespace string
	c := &cobra.Command{
		Use: "check", Short: "Show which isolation works, and why", Args: cli.NoArgs,
		Example: "  toold sandbox check\n  toold sandbox check --profile landlock -o json",
		Long: `Runs a test program under a profile. The program tries forbidden actions, and
the command shows which isolation works. The exit code is 1 when files, network
or processes are not isolated as the profile requires.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return inSandbox(a, c, helper, profile, namespace, func(ctx context.Context, r *sandbox.Runner, policy *sandbox.Policy) error {
				facts := r.Facts()
				if policy != nil {
					var err error
					if facts, err = r.Prove(ctx, *policy); err != nil {
						return err
					}
				}
				if a.Output == cli.FormJSON {
					if err := json.NewEncoder(a.Out).Encode(facts); err != nil {
						return err
					}
				} else {
					fmt.Fprint(a.Out, facts)
				}
				if have := facts.MemLimit.Held && facts.PidsLimit.Held; policy != nil && !have {
					fmt.Fprintln(a.Err, "Warning: memory and processes are not limited for a command as a whole. docs/explanation/isolation.md says how to delegate a control group.")
				}
				if gives(facts, policy) {
					return nil
				}
				return cli.Exit(cli.ExitFailed)
			})
		},
	}
	c.Flags().StringVar(&profile, "profile", "", "profile to test; if empty, the setting bash.profile")
	c.Flags().StringVar(&namespace, "namespace", "", "use the workspace of this namespace (setting workspaces)")
	config.AddFlags(c.Flags())
	a.OutputFlag(c, cli.FormTable, cli.FormJSON)
	return c
}

// gives reports whether all isolation that a policy requires works on this machine.
func gives(f isolation.Facts, p *sandbox.Policy) bool {
	switch {
	case p == nil:
		return true // the policy asks for no isolation
	case p.Unsupervised:
		return f.FSRead.Held && f.Net.Held // Landlock provides only these two. A path that cannot be read cannot be written either.
	}
	return f.FSRead.Held && f.FSWrite.Held && (f.Net.Held || p.Network == sandbox.NetworkOpen) && f.ProcessesKilled.Held
}

func sandboxRunCommand(a *cli.App, helper string) *cobra.Command {
	var profile, namespace string
	c := &cobra.Command{
		Use: "run [flags] -- COMMAND [ARGUMENT...]", Short: "Run a command under a profile",
		Example: "  toold sandbox run -- ls -la /\n  toold sandbox run --profile network -- curl -sI https://example.com",
		Long: `Runs a program in the workspace, as the tool bash would run it and with the same
environment. Exit code and output are those of the program. Under a profile with
the network proxy, standard error also lists allowed and refused requests.`,
		Args: cli.AtLeast("a command"),
		RunE: func(c *cobra.Command, args []string) error {
			return inSandbox(a, c, helper, profile, namespace, func(ctx context.Context, r *sandbox.Runner, policy *sandbox.Policy) error {
				cfg, err := loadConfig(a, c)
				if err != nil {
					return err
				}
				dir, err := cfg.WorkspacePath(namespace)
				if err != nil {
					return err
				}
				path, err := exec.LookPath(args[0])
				if err != nil {
					return cli.Usagef("%w", err)
				}
				if path, err = filepath.Abs(path); err != nil {
					return err
				}
				ended, err := r.Run(ctx, sandbox.Spec{
					Path: path, Args: args[1:], Dir: dir, Env: append(shell.DefaultEnv(), cfg.Bash.Env...), Home: sandbox.FreshHome, Stdin: a.In, Policy: policy, Output: copyOut(a),
				})
				if err != nil {
					return err
				}
				if why := ended.OutOfMemory(); why != "" {
					return cli.Fail(cli.ExitFailed, errors.New("out of memory: "+why))
				}
				if ended.Signal != "" {
					return cli.Fail(cli.ExitFailed, fmt.Errorf("ended by %s", ended.Signal))
				}
				if ended.Code != 0 {
					return cli.Exit(ended.Code)
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&profile, "profile", "", "profile to run under; if empty, the setting bash.profile")
	c.Flags().StringVar(&namespace, "namespace", "", "use the workspace of this namespace (setting workspaces)")
	config.AddFlags(c.Flags())
	return c
}

// copyOut returns a function that copies the output of the program to the command's output.
func copyOut(a *cli.App) func(stream string, chunk []byte) error {
	return func(stream string, chunk []byte) error {
		to := a.Out
		if stream == "stderr" {
			to = a.Err
		}
		_, err := to.Write(chunk)
		return err
	}
}

// inSandbox creates a runner for one command and invokes do with it.
func inSandbox(a *cli.App, c *cobra.Command, helper, profile, namespace string, do func(context.Context, *sandbox.Runner, *sandbox.Policy) error) error {
	cfg, err := loadConfig(a, c)
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
	policy, err := cfg.Policy(profile, w.path)
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
	r, err := sandbox.New(sandbox.Config{Owner: filepath.Base(state), StateDir: state, Helper: helper, Gateway: gatewayTo(a.Err), ControlGroup: cfg.Sandbox.ControlGroup})
	if err != nil {
		return err
	}
	defer r.Close()
	return do(c.Context(), r, policy)
}
