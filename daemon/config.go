package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/cli/show"
	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/sandbox"
)

func configCommand(a *cli.App, o options) *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "Show or check the configuration", Example: "  toold config show", Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	shown := &cobra.Command{
		Use: "show", Short: "Print the configuration in force, with its sources", Args: cli.NoArgs,
		Example: "  toold config show --config /etc/toold/toold.yaml",
		Long:    "Prints the configuration in force as YAML, with the source of each value. Does\nnot print secrets.",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(a, c)
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.Out, config.Text(cfg))
			return err
		},
	}
	config.AddFlags(shown.Flags())
	checked := &cobra.Command{
		Use: "check", Short: "Check the configuration, as serve does before it opens its store", Args: cli.NoArgs,
		Example: "  toold config check --config /etc/toold/toold.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(a, c)
			if err != nil {
				return err
			}
			warnings, err := check(c.Context(), cfg, o)
			for _, w := range warnings {
				fmt.Fprintln(a.Err, "toold: "+show.Text(w))
			}
			if err != nil {
				return cli.Fail(cli.ExitUsage, err)
			}
			fmt.Fprintln(a.Out, "the configuration is valid")
			return nil
		},
	}
	config.AddFlags(checked.Flags())
	c.AddCommand(shown, checked)
	return c
}

// check makes all checks of serve that need no open store. The warnings are about settings that are valid but probably unintended.
func check(ctx context.Context, cfg *config.Config, o options) (warnings []string, err error) {
	rules, rulesErr := readRules(cfg)
	token, tokenErr := readToken(cfg.TokenFile())
	_, authErr := newAuth(cfg, token)
	identitiesErr := checkIdentities(cfg)
	_, tlsErr := readTLS(cfg)
	secrets, redactErr := newSecrets(cfg, token)
	_, logErr := newLoggers(cfg, secrets)
	unread, secretsErr := secretWarnings(ctx, cfg, secrets)
	plugins, pluginsErr := newPlugins(cfg, nil)
	hooks, hooksErr := newExternalHooks(cfg, nowhere{}, nil, nil, nil, nil, nil)
	if hooksErr == nil && pluginsErr == nil {
		_, hooksErr = hooks.arrange(inside(plugins, nil, filterNames(cfg), o.hooks))
	}
	tools, all, toolsErr := offlineTools(cfg, o.tools)
	_, mcpErr := readMCP(cfg, "")
	if toolsErr == nil {
		defer func() { _ = all.Close() }() // Ignore the error: nothing was written, so closing only releases handles.
		warnings = ruleWarnings(cfg, rules, tools)
	}
	return append(warnings, unread...), errors.Join(rulesErr, redactErr, secretsErr, tokenErr, authErr, identitiesErr, tlsErr, logErr, pluginsErr, hooksErr, toolsErr, mcpErr)
}

type noExec struct{}

func (noExec) Run(context.Context, sandbox.Spec) (*sandbox.Exit, error) {
	return nil, errors.New("nothing runs while the configuration is checked")
}
