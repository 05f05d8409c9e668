package call

import "sync"

// parsers keep their stacks from one text to the next.
var parsers = sync.Pool{New: func() any { return new(jsonParser) }}

func newParser(text string, writes bool) *jsonParser {
	p, ok := parsers.Get().(*jsonParser)
	if !ok {
		p = new(jsonParser)
	}
	p.text, p.writes = text, writes
	return p
}

// Larger stacks, and more room for canonical forms, are not kept.
const (
	keptMembers = 64
	keptRoom    = 16 << 10
)

// done gives the parser back. Nothing of the text stays in it.
func (p *jsonParser) done() {
	next := jsonParser{}
	if cap(p.members) <= keptMembers && cap(p.items) <= keptMembers && cap(p.form) <= keptRoom {
		clear(p.members[:cap(p.members)])
		clear(p.items[:cap(p.items)])
		next = jsonParser{members: p.members[:0], items: p.items[:0], form: p.form[:0], room: p.room[:0]}
	}
	*p = next
	parsers.Put(p)
}
