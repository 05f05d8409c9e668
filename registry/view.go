package registry

import (
	"slices"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// An Offer says what one caller may see and call. The zero Offer is everything that every namespace has.
type Offer struct {
	Namespace string // of the caller
	// Allow and Exclude are the globs of the agent's tools: see [tool.Agent.Offers].
	Allow, Exclude []string
	// Hidden leaves out what is denied to the caller without condition; nil hides nothing. It is asked concurrently.
	Hidden func(*tool.Descriptor) bool
}

// Includes reports whether a tool is in the offer.
func (o *Offer) Includes(d *tool.Descriptor) bool {
	agent := tool.Agent{Allow: o.Allow, Exclude: o.Exclude}
	return agent.Offers(d) && (o.Hidden == nil || !o.Hidden(d))
}

// A View is what a caller sees of the registry at one revision.
type View struct {
	at    *snapshot
	offer Offer
}

// View returns what the offer shows now.
func (r *Registry) View(o Offer) View { return View{r.current.Load(), o} }

// Revision returns the registry's revision that the view shows.
func (v View) Revision() int64 { return v.at.revision }

// Lookup returns the tool with this id or alias, if it is in the offer.
func (v View) Lookup(name string) (*Entry, bool) {
	e := v.at.find(v.offer.Namespace, name)
	if e == nil || e.trusted != nil || !v.offer.Includes(&e.Descriptor) {
		return nil, false
	}
	return e, true
}

// A Filter narrows a list. The zero Filter lets everything through; each field that is set must hold.
type Filter struct {
	Category string
	Source   string
	Query    string // part of the id, an alias, the display name or the description, in any case
	ReadOnly bool   // only tools whose effects are read-only
}

func (f *Filter) includes(d *tool.Descriptor) bool {
	return (f.Category == "" || f.Category == d.Category) &&
		(f.Source == "" || f.Source == d.Source) &&
		(!f.ReadOnly || d.Effects.Mutability == tool.ReadOnly) &&
		(f.Query == "" || f.found(d))
}

func (f *Filter) found(d *tool.Descriptor) bool {
	query := strings.ToLower(f.Query)
	return slices.ContainsFunc(append(namesOf(d), d.DisplayName, d.Description), func(text string) bool {
		return strings.Contains(strings.ToLower(text), query)
	})
}

// A Page is a part of a list.
type Page struct {
	After string // the last id of the page before; "" begins
	Size  int    // 0 or less: to the end
}

// List returns entries by id, and where the next page begins: "" when there is none. A tool that is added or removed
// between two pages neither repeats nor hides another one.
func (v View) List(f Filter, p Page) (entries []*Entry, next string) {
	for _, e := range v.at.entries {
		d := &e.Descriptor
		if e.trusted != nil || !v.at.shows(e, v.offer.Namespace) || p.After != "" && d.ID <= p.After || !f.includes(d) || !v.offer.Includes(d) {
			continue
		}
		if p.Size > 0 && len(entries) == p.Size {
			return entries, entries[len(entries)-1].Descriptor.ID
		}
		entries = append(entries, e)
	}
	return entries, ""
}
