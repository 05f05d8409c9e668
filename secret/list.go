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

// A State describes a secret without its value.
type State struct {
	Name    string
	Backend string // file, env or command
	Place   string // path of the file, name of the variable, or path of the program
	Allow   []Allow
	Read    time.Time // time at which the secret was last read, with or without success; zero means never
	Problem error     // error of the last read; nil means success
}

// errUnreadable replaces an error whose details must not be shown to the operator of a namespace.
var errUnreadable = errors.New("it cannot be read; an admin of the daemon can see the reason")

// In returns the state as the operator of a namespace may see it: only with the entitlements of that namespace, without Place and without
// the details of a problem. It returns false when nothing in the namespace is entitled to the secret.
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

// List returns the secrets sorted by name. It reads no value.
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

// Check reads every secret, at most four at once, and returns the resulting states. It runs commands again.
func (r *Resolver) Check(ctx context.Context) []State {
	known := *r.now.Load()
	r.each(ctx, slices.Sorted(maps.Keys(known)), func(s *source) { s.asked.Store(nil) })
	return r.List()
}

// Warm reads the secrets that need no command, so that the filter can redact them before any use. This matters because a program may have
// other access to a secret and print it. Warm returns the errors by the names of the secrets.
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
	slots := make(chan struct{}, atOnce)
	for _, name := range names {
		s := known[name]
		if s == nil {
			continue // Swap removed the secret meanwhile.
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			before(s)
			_, _ = s.get(ctx, &r.cfg) // get stores the error in the state of the secret.
		})
	}
	all.Wait()
}

// String returns the entitlement as one line.
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
