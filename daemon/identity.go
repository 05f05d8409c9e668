package daemon

import (
	"os"
	"reflect"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/access/oidc"
	"github.com/toold-dev/toold/tool"
)

// identities holds the issuers and the rules for client certificates, which identify clients that no token of the daemon names. A reload
// compares the new identities with these.
type identities struct {
	issuers      []oidc.Issuer
	certificates []access.CertificateRule
}

// readIdentities reads the settings of issuers and client certificates, and the files that they name.
func readIdentities(cfg *config.Config) (n identities, err error) {
	for _, s := range cfg.Auth.Issuers {
		i := oidc.Issuer{
			Name: s.Name, URL: s.URL, Audiences: s.Audiences, Namespace: s.Namespace, NamespaceClaim: s.NamespaceClaim, Namespaces: s.Namespaces,
			Roles: s.Roles, GroupsClaim: s.GroupsClaim,
		}
		for _, g := range s.Groups {
			i.Groups = append(i.Groups, oidc.Group{Name: g.Group, Roles: g.Roles})
		}
		if i.Keys, err = readOptional(s.Keys); err != nil {
			return n, config.Errorf("auth.issuers: %s: keys: %w", s.Name, err)
		}
		if i.CA, err = readOptional(s.Authority); err != nil {
			return n, config.Errorf("auth.issuers: %s: authority: %w", s.Name, err)
		}
		n.issuers = append(n.issuers, i)
	}
	for _, c := range cfg.Auth.Certificates {
		n.certificates = append(n.certificates, access.CertificateRule{Match: c.Match, Principal: tool.Principal{Namespace: c.Namespace, Subject: c.Subject, Roles: c.Roles, Groups: c.Groups}})
	}
	return n, nil
}

// readOptional reads a file. It returns nil when no file is named.
func readOptional(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	return os.ReadFile(file)
}

// external returns the authentication of these identities.
func (n *identities) external(log *zap.Logger) (*access.External, error) {
	var tokens access.TokenVerifier // a nil interface when there are no issuers
	if len(n.issuers) > 0 {
		v, err := oidc.New(oidc.Config{Issuers: n.issuers, Log: log})
		if err != nil {
			return nil, config.Errorf("auth.issuers: %w", err)
		}
		tokens = v
	}
	e, err := access.NewExternal(tokens, n.certificates)
	if err != nil {
		return nil, config.Errorf("auth.certificates: %w", err)
	}
	return e, nil
}

// checkIdentities reads and checks the identities without using them.
func checkIdentities(cfg *config.Config) error {
	n, err := readIdentities(cfg)
	if err != nil {
		return err
	}
	_, err = n.external(zap.NewNop())
	return err
}

// openIdentities sets the identities that the daemon starts with.
func (d *daemon) openIdentities(auth *access.Auth) error {
	n, err := readIdentities(d.cfg)
	if err != nil {
		return err
	}
	e, err := n.external(d.log)
	if err != nil {
		return err
	}
	auth.SetExternal(e)
	d.reload.identities.Store(&n)
	return nil
}

// A nextIdentities holds the identities that a reload read.
type nextIdentities struct {
	identities
	external *access.External
}

func (d reloader) readIdentities(cfg *config.Config) (n nextIdentities, err error) {
	if n.identities, err = readIdentities(cfg); err != nil {
		return n, err
	}
	n.external, err = n.identities.external(d.log)
	return n, err
}

// reloadIdentities applies the identities and reports whether they changed. If nothing changed, the issuers keep their keys and verified
// tokens.
func (d reloader) reloadIdentities(n nextIdentities) bool {
	if reflect.DeepEqual(n.identities, *d.reload.identities.Load()) {
		return false
	}
	d.auth.SetExternal(n.external)
	d.reload.identities.Store(&n.identities)
	return true
}
