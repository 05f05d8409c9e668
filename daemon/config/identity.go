package config

import (
	"slices"

	"github.com/toold-dev/toold/setting"
)

// Issuer is an OpenID Connect issuer whose tokens the daemon accepts.
type Issuer struct {
	Name           string   `yaml:"name" required:"true" unique:"true" format:"name" help:"short name; the subject of a token is this name, a colon and the claim sub, so the name must not change"`
	URL            string   `yaml:"url" required:"true" unique:"true" help:"URL of the issuer, exactly as in the claim iss of its tokens"`
	Audiences      []string `yaml:"audiences" required:"true" help:"texts of which the claim aud must contain one"`
	Keys           string   `yaml:"keys" help:"file with the public keys of the issuer (JSON Web Key Set); if empty, the daemon fetches the keys from the issuer"`
	Authority      string   `yaml:"authority" help:"file with PEM certificates of the authority that signed the issuer's certificate; if empty, the authorities of the system"`
	Namespace      string   `yaml:"namespace" help:"namespace of all tokens of the issuer; requires an empty namespace_claim"`
	NamespaceClaim string   `yaml:"namespace_claim" help:"claim that names the namespace of a token"`
	Namespaces     []string `yaml:"namespaces" help:"namespaces that namespace_claim may name"`
	Roles          []string `yaml:"roles" oneof:"caller delegate approver operator viewer worker admin" help:"roles of all tokens of the issuer"`
	GroupsClaim    string   `yaml:"groups_claim" default:"groups" help:"claim that lists the groups of a person"`
	Groups         []Group  `yaml:"groups" help:"groups that give roles; a group that is not in this list gives none"`
}

// Group gives roles to the people of a group. Tickets may name the groups of this list as approvers.
type Group struct {
	Group string   `yaml:"group" required:"true" unique:"true" format:"group" help:"name of the group, exactly as in the token"`
	Roles []string `yaml:"roles" required:"true" oneof:"caller delegate approver operator viewer worker admin" help:"roles that the group gives"`
}

// Certificate maps client certificates to a principal.
type Certificate struct {
	Match     string   `yaml:"match" required:"true" unique:"true" help:"SPIFFE id such as spiffe://example.org/ci, or spiffe://example.org/team/* for all ids below it; or the whole subject such as CN=ci,O=Acme"`
	Subject   string   `yaml:"subject" help:"subject in records; if empty, the name in the certificate"`
	Namespace string   `yaml:"namespace" default:"default" help:"namespace to which the certificate gives access"`
	Roles     []string `yaml:"roles" required:"true" oneof:"caller delegate approver operator viewer worker admin" help:"roles of the certificate"`
	Groups    []string `yaml:"groups" format:"group" help:"groups of the certificate; tickets may name them as approvers" see:"permission.md#approver-groups"`
}

// Peer is a local user that needs no token at the unix socket.
type Peer struct {
	User      string   `yaml:"user" required:"true" unique:"true" help:"name or number of the user"`
	Subject   string   `yaml:"subject" help:"subject in records; if empty, the name or number of the user"`
	Namespace string   `yaml:"namespace" default:"default" help:"namespace to which the user has access"`
	Roles     []string `yaml:"roles" required:"true" oneof:"caller delegate approver operator viewer worker admin" help:"roles of the user"`
	Groups    []string `yaml:"groups" format:"group" help:"groups of the user; tickets may name them as approvers" see:"permission.md#approver-groups"`
}

// Check implements [setting.Checker].
func (i *Issuer) Check() (wrong setting.Problems) {
	switch {
	case setting.Given(i.Namespace, i.NamespaceClaim) != 1:
		wrong.Add("namespace", "set either namespace or namespace_claim")
	case (i.NamespaceClaim != "") != (len(i.Namespaces) > 0):
		wrong.Add("namespaces", "list the namespaces that namespace_claim may name")
	case slices.Contains(i.Namespaces, ""):
		wrong.Add("namespaces", "the name of a namespace is empty")
	}
	if i.Name == "spiffe" {
		wrong.Add("name", "%q is not allowed: the subjects of the issuer could equal those of client certificates", i.Name)
	}
	if slices.Contains(i.Audiences, "") {
		wrong.Add("audiences", "an audience is empty")
	}
	if len(i.Roles) == 0 && len(i.Groups) == 0 {
		wrong.Add("roles", "set roles, groups or both; otherwise no token has a role")
	}
	if i.Keys != "" && i.Authority != "" {
		wrong.Add("authority", "is not used with keys, because the daemon then does not contact the issuer")
	}
	return wrong
}

func (c *Config) validateCertificates(wrong complaint) {
	if len(c.Auth.Certificates) > 0 && c.TLS.ClientCA == "" {
		wrong("auth.certificates", "needs tls.client_ca, which says whose certificates are accepted")
	}
}
