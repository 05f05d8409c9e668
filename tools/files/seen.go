package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
)

// seen is the document that says what a thread knows of a path.
type seen struct {
	Hash string `json:"hash"` // SHA-256 of the whole file, in hex
}

// seenKey names the document of a path, without links. A path that is too long or no text goes by its hash.
func seenKey(actual string) tool.Key[seen] {
	name := actual
	if len(name) > 400 || !utf8.ValidString(name) {
		sum := sha256.Sum256([]byte(name))
		name = "sha256:" + hex.EncodeToString(sum[:])
	}
	return tool.Key[seen]{Scope: tool.ThreadScope, Name: "files.read/" + name}
}

// remember adds to r that the thread knows the file, when there is a thread and it is news: a read-only call that
// stores a document costs a durable write.
func remember(call *tool.Call, r *tool.Result, actual, sum string) *tool.Result {
	if call.Run.Thread == "" || sum == "" {
		return r
	}
	key := seenKey(actual)
	if old, _, err := key.Get(call); err == nil && old.Hash == sum {
		return r
	}
	return r.With(key.Set(seen{sum}))
}

// knowledge is what a thread knows of a file as it is now.
type knowledge int

const (
	known   knowledge = iota // as it is, or nobody asks: a new file, a call without a thread
	unread                   // never read
	changed                  // another one
)

func knows(call *tool.Call, actual string, now snapshot) (knowledge, error) {
	if call.Run.Thread == "" || !now.exists() {
		return known, nil
	}
	old, revision, err := seenKey(actual).Get(call)
	switch {
	case err != nil:
		return unread, err
	case revision == 0:
		return unread, nil
	case old.Hash != now.hash:
		return changed, nil
	}
	return known, nil
}

// snapshot is a file as a call found it; the zero snapshot is a file that does not exist.
type snapshot struct {
	content []byte
	hash    string
}

func (s snapshot) exists() bool { return s.hash != "" }

// basis is what a description was made from.
func (s snapshot) basis() string {
	if !s.exists() {
		return "absent"
	}
	return "sha256:" + s.hash
}

// load reads a whole file of at most the size that may be edited.
func (f *family) load(ctx context.Context, p place) (snapshot, error) {
	file, err := f.workspace.Open(ctx, p.actual)
	if errors.Is(err, fs.ErrNotExist) {
		return snapshot{}, nil
	}
	if err != nil {
		return snapshot{}, explain(p.path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return snapshot{}, explain(p.path, err)
	}
	if info.IsDir() {
		return snapshot{}, refuse(reasonIsDirectory, "%s is a directory; give the path of a file.", quote(p.path))
	}
	content, err := io.ReadAll(io.LimitReader(reader{ctx, file}, f.limits.FileSize+1))
	if err != nil {
		return snapshot{}, explain(p.path, err)
	}
	if int64(len(content)) > f.limits.FileSize {
		return snapshot{}, refuse(reasonTooLarge, "%s is larger than %d bytes, the most that can be changed in one call.", quote(p.path), f.limits.FileSize)
	}
	return snapshot{content, sumOf(content)}, nil
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func hashOf(ctx context.Context, r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, reader{ctx, r}); err != nil {
		return "", err
	}
	return hexSum(h), nil
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// reader stops when ctx ends.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}
