package audit

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
)

// A Checkpoint is the signed end of a chain. The checkpoint file contains one JSON line for each Checkpoint.
type Checkpoint struct {
	Store     string    `json:"store_id"`
	Namespace string    `json:"namespace"`
	Position  int64     `json:"position"` // position of the newest record in the chain
	Link      call.Hex  `json:"link"`
	Time      time.Time `json:"time"`
	Key       call.Hex  `json:"key"`       // public Ed25519 key
	Signature call.Hex  `json:"signature"` // signature of the bytes that signed returns
}

// signed returns the bytes to sign: "toold.checkpoint.v1", then store, namespace and link, each after its length in four bytes. Position
// and time follow in eight bytes each; the time is in nanoseconds since 1970.
func (c *Checkpoint) signed() []byte {
	b := []byte("toold.checkpoint.v1")
	for _, word := range [...]string{c.Store, c.Namespace, string(c.Link)} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(word))), word...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(c.Position))
	return binary.BigEndian.AppendUint64(b, uint64(c.Time.UnixNano()))
}

// genuine reports whether key signed the checkpoint. When key is nil, it uses the key in the checkpoint.
func (c *Checkpoint) genuine(key ed25519.PublicKey) bool {
	if key == nil {
		key = ed25519.PublicKey(c.Key)
	}
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, c.signed(), c.Signature)
}

// ReadCheckpoints reads a file of checkpoints. It returns them ordered by position within each namespace. Checkpoints that key did not sign
// are omitted and reported in bad. When key is nil, the key in each checkpoint is used. A last line that a crash cut off is not an error.
func ReadCheckpoints(r io.Reader, key ed25519.PublicKey) (good []Checkpoint, bad []Finding, err error) {
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		var c Checkpoint
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, nil, fmt.Errorf("line %d is not a checkpoint: %w", n, err)
		}
		if !c.genuine(key) {
			bad = append(bad, Finding{"SIGNATURE", c.Position, fmt.Sprintf("line %d of the checkpoints was not signed with the key", n)})
			continue
		}
		good = append(good, c)
	}
	sortCheckpoints(good)
	return good, bad, nil
}

// A Source reads the records of a chain after a position, oldest first.
type Source func(ctx context.Context, namespace string, after int64) iter.Seq2[call.ChainRecord, error]

// A Keeper signs the current end of each chain.
type Keeper struct {
	Store  string
	Source Source
	Key    ed25519.PrivateKey
	File   string // file to which checkpoints are appended
	Every  time.Duration
	Now    func() time.Time
	Log    *zap.Logger

	newest map[string]Checkpoint // newest checkpoint of each namespace; only Open and Sign use it

	mu      sync.Mutex
	broken  map[string]int64 // first broken record of each namespace whose chain is broken
	failure error            // error of the latest Sign; nil after a success
}

// Broken returns the first record of a namespace that Sign found to be broken, or 0.
func (k *Keeper) Broken(namespace string) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.broken[namespace]
}

// Failure returns the error of the latest Sign.
func (k *Keeper) Failure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failure
}

// found records a broken chain and logs the first broken record.
func (k *Keeper) found(namespace string, position int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken[namespace] == 0 {
		k.broken[namespace] = position
		k.Log.Error("audit: the chain is broken; see toold audit verify", zap.String("namespace", namespace), zap.Int64("position", position))
	}
}

// Open reads the existing checkpoints.
func (k *Keeper) Open() error {
	k.newest, k.broken = map[string]Checkpoint{}, map[string]int64{}
	f, err := os.Open(k.File)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	good, bad, err := ReadCheckpoints(f, k.Key.Public().(ed25519.PublicKey))
	if err != nil {
		return fmt.Errorf("%s: %w", k.File, err)
	}
	for _, finding := range bad {
		k.Log.Error("audit", zap.String("file", k.File), zap.String("kind", finding.Kind), zap.String("finding", finding.Text))
	}
	for _, c := range good {
		if c.Store == k.Store {
			k.newest[c.Namespace] = c
		}
	}
	return nil
}

// Run signs new records at intervals, and once more when ctx is done. The caller must not end ctx before the last record is written.
func (k *Keeper) Run(ctx context.Context, namespaces func() []string) error {
	tick := time.NewTicker(k.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return k.Sign(context.WithoutCancel(ctx), namespaces())
		case <-tick.C:
			if err := k.Sign(ctx, namespaces()); err != nil && ctx.Err() == nil {
				k.Log.Error("audit: nothing signed; will try again", zap.Error(err))
			}
		}
	}
}

// Sign appends a checkpoint for each chain that has new records. It verifies the links of the new records. When a chain is broken, Sign
// logs that once for each namespace and continues to sign.
func (k *Keeper) Sign(ctx context.Context, namespaces []string) error {
	err := k.sign(ctx, namespaces)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failure = err
	return err
}

func (k *Keeper) sign(ctx context.Context, namespaces []string) error {
	var lines []byte
	next := map[string]Checkpoint{}
	for _, ns := range namespaces {
		last, known := k.newest[ns]
		before, at := []byte(last.Link), last.Position
		for l, err := range k.Source(ctx, ns, at) {
			if err != nil {
				return fmt.Errorf("%s: %w", ns, err)
			}
			if (known || before != nil) && !l.Follows(before) {
				k.found(ns, l.Position)
			}
			before, at = l.Link, l.Position
		}
		if at == last.Position {
			continue
		}
		c := Checkpoint{Store: k.Store, Namespace: ns, Position: at, Link: before, Time: k.Now().UTC(), Key: call.Hex(k.Key.Public().(ed25519.PublicKey))}
		c.Signature = ed25519.Sign(k.Key, c.signed())
		line, err := json.Marshal(c)
		if err != nil {
			return err
		}
		lines, next[ns] = append(append(lines, line...), '\n'), c
	}
	if len(lines) == 0 {
		return nil
	}
	if err := appendTo(k.File, lines); err != nil {
		return err
	}
	for ns, c := range next {
		k.newest[ns] = c
	}
	return nil
}

// Namespaces returns the namespaces that have a checkpoint or calls that f has seen.
func (k *Keeper) Namespaces(f *Filter) []string {
	var all []string
	for ns := range k.newest {
		all = append(all, ns)
	}
	f.namespaces.Range(func(ns, _ any) bool {
		all = append(all, ns.(string))
		return true
	})
	slices.Sort(all)
	return slices.Compact(all)
}

func appendTo(path string, b []byte) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := endLine(f); err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Sync()
}

// endLine removes a last line that a crash cut off.
func endLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	size := info.Size()
	tail := make([]byte, min(size, 4<<10))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return err
	}
	for i := len(tail); i > 0; i-- {
		if tail[i-1] == '\n' {
			return f.Truncate(size - int64(len(tail)-i))
		}
	}
	return f.Truncate(size - int64(len(tail)))
}
