package call

import "sync"

// parsers reuse their stacks.
var parsers = sync.Pool{New: func() any { return new(jsonParser) }}

func newParser(text string, writes bool) *jsonParser {
	p, ok := parsers.Get().(*jsonParser)
	if !ok {
		p = new(jsonParser)
	}
	p.text, p.writes = text, writes
	return p
}

// The maximum sizes of stacks and buffers that are kept for reuse.
const (
	keptMembers  = 64
	keptCapacity = 16 << 10
)

// done returns the parser to the pool, without references to the text.
func (p *jsonParser) done() {
	next := jsonParser{}
	if cap(p.members) <= keptMembers && cap(p.items) <= keptMembers && cap(p.form) <= keptCapacity {
		clear(p.members[:cap(p.members)])
		clear(p.items[:cap(p.items)])
		next = jsonParser{members: p.members[:0], items: p.items[:0], form: p.form[:0], sorting: p.sorting[:0]}
	}
	*p = next
	parsers.Put(p)
}
