package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
)

// localUser returns the principal of the user that runs the daemon on this machine. The token of the first start and the user's peer
// identity at the unix socket both give this principal, so that the user cannot approve twice in a four-eyes approval.
func localUser() tool.Principal {
	return tool.Principal{Namespace: "default", Subject: "local", Roles: []string{"caller", "approver", "operator", "viewer", "admin"}}
}

// newAuth returns the authentication. localToken is the token of the first start, or empty if there is none yet.
func newAuth(cfg *config.Config, localToken string) (*access.Auth, error) {
	tokens, err := tokensOf(cfg, localToken)
	if err != nil {
		return nil, err
	}
	peers, err := peersOf(cfg)
	if err != nil {
		return nil, err
	}
	auth, err := access.NewAuth(tokens, peers)
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	return auth, nil
}

// openAuth creates the authentication, with the credentials of the store.
func (d *daemon) openAuth(ctx context.Context) (err error) {
	if d.token, err = ensureToken(d.cfg.TokenFile()); err != nil {
		return err
	}
	if d.auth, err = newAuth(d.cfg, d.token); err != nil {
		return err
	}
	if err := d.openIdentities(d.auth); err != nil {
		return err
	}
	d.auth.SetSessionTime(d.cfg.Auth.Session)
	stored, err := wire.StoredCredentials(ctx, d.store)
	if d.store.Identity().Moved && len(stored) > 0 { // Revoke all stored credentials. Otherwise a credential that was revoked after the copy or the backup would be valid again.
		for i := range stored {
			err = errors.Join(err, wire.Credentials(d.store).Remove(ctx, &stored[i]))
		}
		d.log.Error("the store was copied or restored: its created tokens and sessions are revoked; create new ones", zap.Int("credentials", len(stored)))
		stored = nil
	}
	if err = errors.Join(err, d.auth.Keep(wire.Credentials(d.store), stored)); err != nil {
		d.log.Error("some tokens and sessions cannot be read or removed, so they are not valid", zap.Error(err))
	}
	return nil
}

// peersOf returns the local users that need no token: the daemon's own and the configured ones.
func peersOf(cfg *config.Config) ([]access.Peer, error) {
	own := uint32(os.Getuid())
	peers := []access.Peer{{UID: own, Principal: localUser()}}
	for _, p := range cfg.Auth.Peers {
		uid, err := uidOf(p.User)
		if err != nil {
			return nil, config.Errorf("auth.peers: %w", err)
		}
		if uid == own {
			return nil, config.Errorf("auth.peers: %q is the user of the daemon, whose subject is always %q", p.User, localUser().Subject)
		}
		peers = append(peers, access.Peer{UID: uid, Principal: tool.Principal{Namespace: p.Namespace, Subject: cmp.Or(p.Subject, p.User), Roles: p.Roles, Groups: p.Groups}})
	}
	return peers, nil
}

// uidOf returns the number of a user, given as name or number.
func uidOf(name string) (uint32, error) {
	text := name
	if u, err := user.Lookup(name); err == nil {
		text = u.Uid
	}
	uid, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("the machine has no user %q", name)
	}
	return uint32(uid), nil
}

// tokensOf returns the configured tokens and the token of the first start.
func tokensOf(cfg *config.Config, localToken string) ([]access.Token, error) {
	var tokens []access.Token
	if localToken != "" {
		sum := sha256.Sum256([]byte(localToken))
		tokens = append(tokens, access.Token{Hash: hex.EncodeToString(sum[:]), Principal: localUser()})
	}
	for _, t := range cfg.Auth.Tokens {
		sum, err := t.Sum()
		if err != nil {
			return nil, fmt.Errorf("auth.tokens: %q: %w", t.Name, err)
		}
		tokens = append(tokens, access.Token{
			Hash: hex.EncodeToString(sum[:]), Expires: t.Expires,
			Principal: tool.Principal{Namespace: t.Namespace, Subject: t.Name, Roles: t.Roles, Groups: t.Groups},
		})
	}
	return tokens, nil
}

// defaultApprovers returns the approvers of tickets that name none.
func defaultApprovers(cfg *config.Config) lifecycle.DefaultApprovers {
	d := lifecycle.DefaultApprovers{SingleUser: cfg.SingleUser, Groups: map[string][]string{}}
	for _, of := range cfg.Auth.ApproverGroups {
		d.Groups[of.Namespace] = of.Groups
	}
	return d
}

const tokenBytes = 32

// readToken returns the token of an earlier start, or "" if there is none.
func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < base64.RawURLEncoding.EncodedLen(16) {
		return "", config.Errorf("token file %s holds no token of 128 bits or more; remove it and the next start makes one", file)
	}
	if err := os.Chmod(file, 0o600); err != nil { // Set the mode, because a copied file may have another one.
		return "", fmt.Errorf("token: %w", err)
	}
	return token, nil
}

// ensureToken returns the token of an earlier start, or creates one. The caller must hold the lock of the data directory.
func ensureToken(file string) (string, error) {
	token, err := readToken(file)
	if err != nil || token != "" {
		return token, err
	}
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // This call never fails.
	token = base64.RawURLEncoding.EncodeToString(b)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	_, err = f.WriteString(token + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(file) // Remove the file, because it is incomplete.
		return "", fmt.Errorf("token: %w", err)
	}
	return token, nil
}
