package group

import (
	"fmt"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// askDocuments adds the documents that the commands name to the plan's requests, and their scopes when there are limits.
func (p *Plan) askDocuments(namespace string, commands []store.DocumentChange, limits store.DocumentLimits) {
	for i := range commands {
		k := Document{namespace, commands[i].Key()}
		if _, ok := p.Documents[k]; !ok {
			p.Documents[k] = store.DocumentState{}
			p.AskDocuments = append(p.AskDocuments, k)
		}
		if in := (Scope{namespace, k.In()}); limits.Count > 0 || limits.Total > 0 {
			if _, ok := p.Usage[in]; !ok {
				p.Usage[in] = store.DocumentUsage{}
				p.AskUsage = append(p.AskUsage, in)
			}
		}
	}
}

// documentsOf reads the documents of a namespace, including the changes of the group so far.
type documentsOf struct {
	p         *Plan
	namespace string
}

func (r documentsOf) Document(k store.DocumentKey) (store.DocumentState, error) {
	return r.p.Documents[Document{r.namespace, k}], nil
}

func (r documentsOf) Usage(in store.DocumentScope) (store.DocumentUsage, error) {
	return r.p.Usage[Scope{r.namespace, in}], nil
}

// resolve computes the new states of a change's documents. It calls the change's callback once, and then encodes the call and events.
func (p *Plan) resolve(o *Op) (map[store.DocumentKey]store.DocumentState, error) {
	c := o.Change
	if len(c.Documents) == 0 {
		return nil, nil
	}
	writes, notices, err := c.ResolveDocuments(documentsOf{p, c.Name().Namespace})
	if err != nil {
		return nil, err
	}
	if o.notices == nil {
		o.notices = slices.Clone(notices)
		if c.OnDocuments != nil {
			c.OnDocuments(notices)
		}
		if err := c.Validate(); err != nil {
			return nil, err
		}
		return writes, o.encode()
	}
	// The group is being written again. The callback of the change was called in the first try and has set values in the events. The
	// outcome must therefore be the same as then.
	same := func(a, b call.DocumentNotice) bool {
		a.Expected, b.Expected = nil, nil
		return a == b
	}
	if !slices.EqualFunc(notices, o.notices, same) {
		return nil, fmt.Errorf("%w: its documents changed before it was written", store.ErrConflict)
	}
	return writes, nil
}

// write records the new states of documents in the plan. Later changes of the group are decided on these states.
func (p *Plan) write(namespace string, writes map[store.DocumentKey]store.DocumentState) {
	for key, d := range writes {
		k, in := Document{namespace, key}, Scope{namespace, key.In()}
		if usage, ok := p.Usage[in]; ok {
			before := p.Documents[k]
			count(&usage, &before, -1)
			count(&usage, &d, 1)
			p.Usage[in] = usage
		}
		p.Documents[k] = d
		p.Changed.put(k, d)
	}
}

func count(usage *store.DocumentUsage, d *store.DocumentState, by int) {
	switch {
	case d.Revision == 0:
		return
	case d.Deleted:
		usage.Deleted += by
	default:
		usage.Documents += by
	}
	usage.Bytes += int64(by * len(d.Value))
}
