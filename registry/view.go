package registry

import (
	"github.com/toold-dev/toold/registry/rank"
	"github.com/toold-dev/toold/tool"
)

// An Offer says which tools one caller may see and call. The zero Offer contains the shared tools, which every namespace has.
type Offer struct {
	Namespace string // namespace of the caller
	// Allow and Exclude are the globs of the agent's tools: see [tool.Agent.Offers].
	Allow, Exclude []string
	// Hidden reports tools that the caller may never call; nil hides no tool. It is called concurrently.
	Hidden func(*tool.Descriptor) bool
}

// Includes reports whether a tool is in the offer.
func (o *Offer) Includes(d *tool.Descriptor) bool {
	agent := tool.Agent{Allow: o.Allow, Exclude: o.Exclude}
	return agent.Offers(d) && (o.Hidden == nil || !o.Hidden(d))
}

// A View is the part of the registry that a caller sees, at one moment.
type View struct {
	at    *snapshot
	offer Offer
}

// View returns the current view of an offer.
func (r *Registry) View(o Offer) View { return View{r.current.Load(), o} }

// Lookup returns the tool with this id or alias if it is in the offer.
func (v View) Lookup(name string) (*Entry, bool) {
	e := v.at.find(v.offer.Namespace, name)
	if e == nil || e.trusted != nil || !v.offer.Includes(&e.Descriptor) {
		return nil, false
	}
	return e, true
}

// List returns the tools in the offer, sorted by id.
func (v View) List() (entries []*Entry) {
	for _, e := range v.at.entries {
		if e.trusted == nil && v.at.shows(e, v.offer.Namespace) && v.offer.Includes(&e.Descriptor) {
			entries = append(entries, e)
		}
	}
	return entries
}

// Search returns at most limit tools in the offer that match a query, the best first: see [rank.Search].
func (v View) Search(query string, limit int) []*Entry {
	return v.ranked(func(docs []*rank.Document) []int { return rank.Search(query, docs, limit) })
}

// Select returns the limit most useful tools in the offer, sorted by id: see [rank.Select].
func (v View) Select(query string, include []string, limit int) []*Entry {
	return v.ranked(func(docs []*rank.Document) []int { return rank.Select(query, include, docs, limit) })
}

func (v View) ranked(order func([]*rank.Document) []int) []*Entry {
	all := v.List()
	docs := make([]*rank.Document, len(all))
	for i, e := range all {
		docs[i] = e.words()
	}
	indices := order(docs)
	found := make([]*Entry, len(indices))
	for i, at := range indices {
		found[i] = all[at]
	}
	return found
}
