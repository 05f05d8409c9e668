package secret

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A State is what can be said of a secret without saying it.
type State struct {
	Name    string
	Backend string // file, env or command
	Place   string // the path, the variable, the program
	Allow   []Allow
	Read    time.Time // when its value was wanted last; zero: never
	Problem error     // why it could not be read then; nil: it was
}

// errUnreadable replaces the problem of a secret where its detail is not shown.
var errUnreadable = errors.New("it cannot be read; the daemon's admin sees why")

// In returns what the operator of a namespace sees of the secret: entitlements of that namespace alone, and neither its place nor the
// detail of its problem. It reports false when nothing in the namespace is entitled.
func (s State) In(namespace string) (State, bool) {
	allow := s.Allow
	s.Place, s.Allow = "", nil
	if s.Problem != nil {
		s.Problem = errUnreadable
	}
	for _, a := range allow {
		if a.reaches(namespace) {
			s.Allow = append(s.Allow, Allow{Namespaces: []string{namespace}, Tools: a.Tools, Parameters: a.Parameters})
		}
	}
	return s, len(s.Allow) > 0
}

// List returns the secrets by name, and reads none.
func (r *Resolver) List() []State {
	known := *r.now.Load()
	list := make([]State, 0, len(known))
	for _, name := range slices.Sorted(maps.Keys(known)) {
		list = append(list, known[name].state())
	}
	return list
}

func (s *source) state() State {
	out := State{Name: s.Name, Allow: s.Allow}
	switch {
	case s.File != "":
		out.Backend, out.Place = "file", s.File
	case s.Env != "":
		out.Backend, out.Place = "env", s.Env
	default:
		out.Backend, out.Place = "command", s.Command[0]
	}
	if seen := s.seen.Load(); seen != nil {
		out.Read, out.Problem = seen.at, seen.err
	}
	return out
}

// Check reads every secret, at most four at once, and returns how that went. Commands are started again.
func (r *Resolver) Check(ctx context.Context) []State {
	known := *r.now.Load()
	r.each(ctx, slices.Sorted(maps.Keys(known)), func(s *source) { s.asked.Store(nil) })
	return r.List()
}

// Warm reads those secrets for which that starts nothing, so that they are known before anything that has them otherwise
// can print them. It returns why some could not be read, by name.
func (r *Resolver) Warm(ctx context.Context) map[string]error {
	var names []string
	known := *r.now.Load()
	for name, s := range known {
		if len(s.Command) == 0 {
			names = append(names, name)
		}
	}
	r.each(ctx, names, func(*source) {})
	problems := map[string]error{}
	for _, name := range names {
		if state := known[name].state(); state.Problem != nil {
			problems[name] = state.Problem
		}
	}
	return problems
}

const atOnce = 4

func (r *Resolver) each(ctx context.Context, names []string, before func(*source)) {
	known := *r.now.Load()
	var all sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for _, name := range names {
		s := known[name]
		if s == nil {
			continue // replaced meanwhile
		}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			before(s)
			_, _ = s.get(ctx, &r.cfg) // its state says how it went
		})
	}
	all.Wait()
}

// String is an entitlement in a line.
func (a Allow) String() string {
	parts := []string{strings.Join(a.Tools, ",")}
	if len(a.Parameters) > 0 {
		parts = append(parts, "for "+strings.Join(a.Parameters, ","))
	}
	if len(a.Namespaces) > 0 {
		parts = append(parts, "in "+strings.Join(a.Namespaces, ","))
	}
	return strings.Join(parts, " ")
}
