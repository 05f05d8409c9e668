package group

import (
	"cmp"
	"context"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
	"github.com/toold-dev/toold/tool"
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
		if err := w.removeAction(ctx, a.Namespace, a.Done); err != nil {
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

func (w *Writer) removeAction(ctx context.Context, namespace, id string) error {
	err := store.ErrNotFound
	failed := w.cfg.Database.Query(ctx, "DELETE FROM actions WHERE namespace = $1 AND id = $2 RETURNING id", func(rows.Row) error {
		err = nil
		return nil
	}, namespace, id)
	return cmp.Or(failed, err)
}

// EndRun stores the state of a run and removes its documents and policies.
func (w *Writer) EndRun(_ context.Context, r store.Run) error {
	return w.Do(Op{Run: func(ctx context.Context, p *Plan) error {
		r.Changed = p.Now
		p.Runs = append(p.Runs, r)
		for _, table := range []string{"documents", "policies"} {
			if err := w.exec(ctx, "DELETE FROM "+table+" WHERE namespace = $1 AND scope = $2 AND scope_id = $3", r.Namespace, string(tool.RunScope), r.ID); err != nil {
				return err
			}
		}
		return nil
	}})
}

// exec runs a statement that returns no rows, inside the open transaction.
func (w *Writer) exec(ctx context.Context, text string, args ...any) error {
	return w.cfg.Database.Query(ctx, text, nil, args...)
}
