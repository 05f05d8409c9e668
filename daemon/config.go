package daemon

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/cli/show"
	"github.com/toold-dev/toold/daemon/config"
)

func configCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "Show or check the configuration", Example: "  toold config show", Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	shown := &cobra.Command{
		Use: "show", Short: "Print the configuration that holds, with its sources", Args: cli.NoArgs,
		Example: "  toold config show --config /etc/toold/toold.yaml",
		Long:    "Prints the configuration as YAML, with the source of each value; no secrets.",
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
		Use: "check", Short: "Do what serve does before it opens its store", Args: cli.NoArgs,
		Example: "  toold config check --config /etc/toold/toold.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(a, c)
			if err != nil {
				return err
			}
			warnings, err := check(c.Context(), cfg)
			for _, w := range warnings {
				fmt.Fprintln(a.Err, "toold: "+show.Text(w))
			}
			if err != nil {
				return cli.Fail(cli.ExitUsage, err)
			}
			fmt.Fprintln(a.Out, "the configuration is good")
			return nil
		},
	}
	config.AddFlags(checked.Flags())
	c.AddCommand(shown, checked)
	return c
}
