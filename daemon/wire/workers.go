package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker"
	"github.com/toold-dev/toold/tools/worker/link"
)

// Workers gives endpoints access to the hub of workers.
func Workers(h *worker.Hub, o Operations) service.Workers { return workers{h, o} }

// Operations ends operations: work of tools that continues outside of the daemon.
type Operations interface {
	Complete(namespace, source, id, operation string, r *tool.Result, failed error) error
}

type workers struct {
	hub        *worker.Hub
	operations Operations
}

type workerSession struct {
	*worker.Session
	operations Operations
}

func (s workerSession) Complete(id, operation string, r *tool.Result, failed error) error {
	namespace, source := s.Serves()
	return s.operations.Complete(namespace, source, id, operation, r, failed)
}

func (w workers) Connect(p tool.Principal, o link.Offer, line link.Line) (service.WorkerSession, link.Accepted, func(), error) {
	s, accepted, ready, err := w.hub.Connect(p, o, line)
	if err != nil {
		return nil, accepted, nil, workerRefusal(err)
	}
	return workerSession{s, w.operations}, accepted, ready, nil
}

func workerRefusal(err error) error {
	invalid, ok := errors.AsType[*worker.InvalidError](err)
	switch {
	case ok:
		return call.InvalidField(invalid.Field, "%s", invalid.Message)
	case errors.Is(err, worker.ErrTooMany):
		return call.Refuse(call.ResourceExhausted, "TOO_MANY_WORKERS", "%v", err)
	case errors.Is(err, worker.ErrClosed):
		return call.Refuse(call.Unavailable, "DRAINING", "the daemon is stopping; connect to the next one")
	}
	return err
}

// WorkerTools lets workers register tools in a registry.
func WorkerTools(r *registry.Registry) worker.Registry { return workerTools{r} }

type workerTools struct{ *registry.Registry }

func (w workerTools) Register(source string, tools ...tool.Tool) error {
	return taken(w.Registry.Register(source, tools...))
}

func (w workerTools) Replace(source string, tools ...tool.Tool) error {
	return taken(w.Registry.Replace(source, tools...))
}

func (w workerTools) Trusted(source, id string) bool {
	for _, q := range w.Quarantined() {
		if q.Source == source && q.Waiting.Descriptor.ID == id {
			return false
		}
	}
	return true
}

// taken replaces an error about a duplicate name by an error that does not name the other source, which may belong to another tenant.
func taken(err error) error {
	if duplicate, ok := errors.AsType[*registry.DuplicateError](err); ok {
		return fmt.Errorf("%w: another source has a tool %q", worker.ErrTaken, duplicate.Name)
	}
	return err
}

// workerKind is the kind of the records of offered tools. The records belong to no namespace.
const workerKind = "worker_tool"

// workerKeyKind is the kind of the record that stores the key for worker leases. The record belongs to no namespace.
const workerKeyKind = "worker_key"

// WorkerKey returns the stored key for worker leases, or nil if no worker has connected yet.
func WorkerKey(ctx context.Context, s PinStore) ([]byte, error) {
	records, err := s.Records(ctx, "", workerKeyKind, 0, 1)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, nil
	}
	return records[0].Bytes, nil
}

// WorkerMemory stores the tools that workers offered.
func WorkerMemory(s PinStore) worker.Memory { return workerMemory{s} }

type workerMemory struct{ store PinStore }

// A workerRecord stores an offered tool. A nil Known means that the tool was forgotten.
type workerRecord struct {
	Known *worker.Known `json:"known,omitempty"`
}

func (m workerMemory) put(ctx context.Context, source, id string, r workerRecord) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return m.store.PutRecord(ctx, "", store.Record{Kind: workerKind, Key: source + "/" + id, Bytes: text})
}

func (m workerMemory) Keep(ctx context.Context, k worker.Known) error {
	return m.put(ctx, k.Source, k.Offer.Descriptor.ID, workerRecord{&k})
}

func (m workerMemory) Forget(ctx context.Context, source, id string) error {
	return m.put(ctx, source, id, workerRecord{})
}

func (m workerMemory) KeepKey(ctx context.Context, key []byte) error {
	return m.store.PutRecord(ctx, "", store.Record{Kind: workerKeyKind, Key: "leases", Bytes: key})
}

// KnownWorkerTools reads the tools that workers offered. It leaves out tools that cannot be read, and the error names them.
func KnownWorkerTools(ctx context.Context, s PinStore) ([]worker.Known, error) {
	newest := map[string]*worker.Known{}
	var order []string
	var broken []error
	for after := int64(0); ; {
		records, err := s.Records(ctx, "", workerKind, after, 500)
		if err != nil || len(records) == 0 {
			broken = append(broken, err)
			break
		}
		for _, r := range records {
			after = r.Position
			var one workerRecord
			if err := json.Unmarshal(r.Bytes, &one); err != nil {
				broken = append(broken, fmt.Errorf("tool of a worker %q: %w", r.Key, err))
			}
			if _, ok := newest[r.Key]; !ok {
				order = append(order, r.Key)
			}
			newest[r.Key] = one.Known // the newest record is the last one
		}
	}
	var known []worker.Known
	for _, key := range order {
		if k := newest[key]; k != nil {
			known = append(known, *k)
		}
	}
	return known, errors.Join(broken...)
}
