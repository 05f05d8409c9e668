package config

import "github.com/spf13/pflag"

// Parse returns the configuration that arguments of "toold serve" give, such as --data=/srv/toold, with those of environ and of the file
// that these name. It is for programs that contain a daemon.
func Parse(args, environ []string) (*Config, error) {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, Errorf("%w", err)
	}
	return Load(flags, environ)
}
