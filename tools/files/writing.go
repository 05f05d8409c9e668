package files

import (
	"context"
	"path"
	"sync"

	"github.com/toold-dev/toold/tool"
)

// writing holds one lock for each file that a call changes. A call holds the lock while it checks the file and replaces it. Otherwise a call
// of another thread could change the file in between, and this change would be lost.
type writing struct {
	mu    sync.Mutex
	files map[string]chan struct{} // closed when the lock is free again
}

// lock waits for the lock of a file, whose path has no links. The caller must call unlock.
func (w *writing) lock(ctx context.Context, actual string) (unlock func(), err error) {
	for {
		w.mu.Lock()
		busy := w.files[actual]
		if busy == nil {
			break
		}
		w.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer w.mu.Unlock()
	free := make(chan struct{})
	if w.files == nil {
		w.files = map[string]chan struct{}{}
	}
	w.files[actual] = free
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.files, actual)
		close(free)
	}, nil
}

// resourceOf names a file as a resource. When the path cannot be an id, it names the nearest folder above whose path can be an id.
func resourceOf(actual string) []tool.Resource {
	for {
		if actual == "." {
			actual = ""
		}
		list := []tool.Resource{{Kind: tool.ResourceFile, ID: actual}}
		if tool.CheckResources(list) == nil {
			return list
		}
		actual = path.Dir(actual)
	}
}
