package remote

import "github.com/toold-dev/toold/setting"

// Settings declare the address of a HookService.
type Settings struct {
	Address    string `yaml:"address" help:"address of a HookService: host:port or unix:/path" see:"plugins/remote.md"`
	Plaintext  bool   `yaml:"plaintext" help:"use no TLS, even to another machine; a unix socket and the loopback address never need TLS"`
	CA         string `yaml:"ca" help:"PEM file of the certificate authority of the service; if empty, the authorities of the system"`
	Cert       string `yaml:"cert" help:"PEM file of the client certificate for the service; requires key"`
	Key        string `yaml:"key" help:"PEM file of the private key of cert"`
	ServerName string `yaml:"server_name" help:"name in the certificate of the service; if empty, the host of address"`
	TokenFile  string `yaml:"token_file" help:"file that contains the bearer token for the service"`
	Token      string `yaml:"token" format:"reference" help:"replaces token_file: a reference secret://name to the bearer token"`
}

// Check implements [setting.Checker].
func (s *Settings) Check() (wrong setting.Problems) {
	if (s.Cert == "") != (s.Key == "") {
		wrong.Add("", "set both cert and key, or neither")
	}
	if s.Token != "" && s.TokenFile != "" {
		wrong.Add("", "set only one of token and token_file")
	}
	return wrong
}
