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

// seen is a document that says which content of a file a thread knows.
type seen struct {
	Hash string `json:"hash"` // SHA-256 of the whole file, in hex
}

// seenKey returns the key of the document for a path without links. When the path is too long or not valid UTF-8, the key contains the hash
// of the path.
func seenKey(actual string) tool.Key[seen] {
	name := actual
	if len(name) > 400 || !utf8.ValidString(name) {
		sum := sha256.Sum256([]byte(name))
		name = "sha256:" + hex.EncodeToString(sum[:])
	}
	return tool.Key[seen]{Scope: tool.ThreadScope, Name: "files.read/" + name}
}

// remember adds to r the command that records that the thread knows the file. It does nothing when the call has no thread. When the
// document is already up to date, it does nothing either, because otherwise each read-only call would need a durable write.
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

// knowledge says whether a thread knows the current content of a file.
type knowledge int

const (
	known   knowledge = iota // The thread knows the content; or the check does not apply, because the file is new or the call has no thread.
	unread                   // The thread has never read the file.
	changed                  // The file has changed since the thread read it.
)

func knowledgeOf(call *tool.Call, actual string, now snapshot) (knowledge, error) {
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

// snapshot is the content of a file when a call read it. The zero snapshot means that the file does not exist.
type snapshot struct {
	content []byte
	hash    string
}

func (s snapshot) exists() bool { return s.hash != "" }

// basis identifies the content of the snapshot.
func (s snapshot) basis() string {
	if !s.exists() {
		return "absent"
	}
	return "sha256:" + s.hash
}

// load reads a whole file. It refuses a file that is too large to be changed.
func (f *family) load(ctx context.Context, p resolvedPath) (snapshot, error) {
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
		return snapshot{}, refuse(reasonTooLarge, "%s is larger than %d bytes, the limit for a change.", quote(p.path), f.limits.FileSize)
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

// reader reads from another reader. It returns an error when ctx is done.
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
