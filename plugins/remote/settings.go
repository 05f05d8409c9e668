package remote

import "github.com/toold-dev/toold/setting"

// Settings declare the address of a HookService.
type Settings struct {
	Address    string `yaml:"address" help:"host:port or unix:/path of a HookService" see:"plugins/remote.md"`
	Plaintext  bool   `yaml:"plaintext" help:"use no TLS to another machine either; a unix socket and the loopback address need none"`
	CA         string `yaml:"ca" help:"PEM file of the authority of its certificate; empty is the system's"`
	Cert       string `yaml:"cert" help:"PEM file that is shown to the service, with key"`
	Key        string `yaml:"key" help:"PEM file of the key of cert"`
	ServerName string `yaml:"server_name" help:"name in its certificate; empty is the host of address"`
	TokenFile  string `yaml:"token_file" help:"file whose text is sent as bearer token"`
	Token      string `yaml:"token" format:"reference" help:"secret://name whose value is sent as bearer token, in place of token_file"`
}

// Check implements [setting.Checker].
func (s *Settings) Check() (wrong setting.Problems) {
	if (s.Cert == "") != (s.Key == "") {
		wrong.Add("", "set both cert and key, or neither")
	}
	if s.Token != "" && s.TokenFile != "" {
		wrong.Add("", "one of token and token_file says where the token is, not two")
	}
	return wrong
}
