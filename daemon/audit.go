package daemon

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/plugins/audit"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/store"
)

// auditPage is how many records are read in one query.
const auditPage = 500

// keepAudit signs the last record of each audit chain regularly until ctx is done. It does nothing when the configuration does not enable
// the audit.
func (d *daemon) keepAudit(ctx context.Context, loops *sync.WaitGroup) error {
	if d.plugins.audit == nil {
		return nil
	}
	key, err := ensureAuditKey(auditKeyFile(d.cfg))
	if err != nil {
		return err
	}
	k := &audit.Keeper{
		Store: d.store.Identity().StoreID, Source: chainOf(d.store), Key: key, File: checkpointFile(d.cfg),
		Every: d.cfg.Audit.Every, Now: func() time.Time { return d.store.Now().Time() }, Log: d.log,
	}
	if err := k.Open(); err != nil {
		return config.Errorf("audit.checkpoints: %w", err)
	}
	d.keeper.Store(k)
	d.log.Info("audit records are written", zap.String("checkpoints", k.File), zap.String("key", hex.EncodeToString(key.Public().(ed25519.PublicKey))))
	loops.Go(func() {
		if err := k.Run(ctx, func() []string { return k.Namespaces(d.plugins.audit) }); err != nil {
			d.log.Error("audit: the last checkpoint was not signed", zap.Error(err))
		}
	})
	return nil
}

// chainOf reads audit chains from a store.
func chainOf(s store.RecordReader) audit.Source {
	return func(ctx context.Context, namespace string, after int64) iter.Seq2[call.ChainRecord, error] {
		return func(yield func(call.ChainRecord, error) bool) {
			for {
				page, err := s.Records(ctx, namespace, audit.Kind, after, auditPage)
				if err != nil {
					yield(call.ChainRecord{}, err)
					return
				}
				for _, r := range page {
					line, err := call.NewChainRecord(namespace, r.Position, r.Time.Time(), r.Key, r.CallID, r.Bytes)
					if !yield(line, err) || err != nil {
						return
					}
					after = r.Position
				}
				if len(page) < auditPage {
					return
				}
			}
		}
	}
}

// operations returns a function that writes an audit record of an operation. It returns nil when the audit is off. A record that cannot be
// written is logged and does not stop the operation: an operator must be able to free space on a full disk.
func (d *daemon) operations() func(context.Context, service.Operation) {
	if d.plugins.audit == nil {
		return nil
	}
	return func(ctx context.Context, op service.Operation) {
		r := d.plugins.audit.Operation(op.Method, op.By, op.Of, op.Refused)
		if err := d.store.PutRecord(context.WithoutCancel(ctx), op.By.Namespace, store.Record(r)); err != nil {
			d.log.Error("audit: record of a request not stored", zap.ByteString("record", r.Bytes), zap.String("namespace", op.By.Namespace), zap.Error(err))
		}
	}
}

const auditKeyType = "PRIVATE KEY" // the PEM type of PKCS #8, RFC 5208

// ensureAuditKey returns the key of an earlier start, or creates one.
func ensureAuditKey(file string) (ed25519.PrivateKey, error) {
	key, err := readAuditKey(file)
	if !errors.Is(err, os.ErrNotExist) {
		return key, err
	}
	_, key, err = ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: auditKeyType, Bytes: der})
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return key, os.Rename(file+".new", file)
}

func readAuditKey(file string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != auditKeyType {
		return nil, fmt.Errorf("%s is not a private key in PEM form", file)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is not an Ed25519 key", file)
	}
	return key, nil
}

// auditKeyFile returns the path of the key that signs checkpoints.
func auditKeyFile(c *config.Config) string { return filepath.Join(c.Data, "audit", "key") }

func checkpointFile(c *config.Config) string {
	return cmp.Or(c.Audit.Checkpoints, filepath.Join(c.Data, "audit", "checkpoints.jsonl"))
}
