package group

import (
	"context"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// PutPolicy stores or removes a policy without a call.
func (w *Writer) PutPolicy(_ context.Context, policy store.Policy) error {
	return w.Do(Op{Run: func(_ context.Context, p *Plan) error {
		p.Policies = append(p.Policies, policy)
		return nil
	}})
}

// PutRecord stores a record without a call.
func (w *Writer) PutRecord(_ context.Context, namespace string, r store.Record) error {
	return w.Do(Op{Run: func(_ context.Context, p *Plan) error {
		p.keep(call.Key{Namespace: namespace}, r)
		return nil
	}})
}

// Amend applies an amendment in one transaction.
func (w *Writer) Amend(ctx context.Context, a *store.Amendment) (notices []call.DocumentNotice, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	err = w.Do(Op{Run: func(ctx context.Context, p *Plan) (err error) {
		notices, err = w.amend(ctx, p, a)
		return err
	}})
	return notices, err
}

func (w *Writer) amend(ctx context.Context, p *Plan, a *store.Amendment) ([]call.DocumentNotice, error) {
	if a.Done != "" {
		if err := w.cfg.Database.RemoveAction(ctx, a.Namespace, a.Done); err != nil {
			return nil, err
		}
	}
	actions, err := encodeActions(a.Actions)
	if err != nil {
		return nil, err
	}
	p.askDocuments(a.Namespace, a.Documents, a.Limits)
	if err := w.cfg.Database.Read(ctx, p); err != nil {
		return nil, err
	}
	writes, notices, err := a.ResolveDocuments(documentsOf{p, a.Namespace})
	if err != nil {
		return nil, err
	}
	p.write(a.Namespace, writes)
	if a.Ended != "" {
		p.Due = append(p.Due, Due{a.Namespace, string(a.EndPhase), a.Ended})
	}
	p.act(actions)
	return notices, nil
}

// CreateBatch stores a batch and its calls in one transaction.
func (w *Writer) CreateBatch(ctx context.Context, b *call.Batch, calls []*store.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	record, err := call.EncodeBatch(b)
	if err != nil {
		return err
	}
	ops := make([]*Op, len(calls))
	for i, c := range calls {
		ops[i] = &Op{Change: c}
		if err := ops[i].prepare(); err != nil {
			return err
		}
	}
	return w.Do(Op{Run: func(ctx context.Context, p *Plan) error {
		if err := w.cfg.Database.InsertBatch(ctx, b, record); err != nil {
			return err
		}
		for _, o := range ops {
			p.ask(o.Change)
		}
		if err := w.cfg.Database.Read(ctx, p); err != nil {
			return err
		}
		for _, o := range ops {
			if err := p.change(o); err != nil {
				return err
			}
		}
		return nil
	}})
}
