package config

import "github.com/spf13/pflag"

// Parse returns the configuration for the arguments of "toold serve", such as --data=/srv/toold, and the environment environ. It reads the
// configuration file that they name. Parse is for programs that embed a daemon.
func Parse(args, environ []string) (*Config, error) {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, Errorf("%w", err)
	}
	return Load(flags, environ)
}
