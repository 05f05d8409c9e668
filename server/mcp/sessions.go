package mcpserver

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of the sessions of clients of protocol versions before 2026-07-28.
const (
	maxSessions     = 1000
	maxSessionsEach = 100 // limit of one principal, so that other principals can still begin sessions
)

const sessionHeader = "Mcp-Session-Id"

// owners knows the principals of the sessions.
type owners struct {
	mu    sync.Mutex
	ids   map[string]string // by session id
	begun map[string]int    // requests in progress that may begin a session, by principal
}

// begin serves a request without a session. The request may begin a session, so begin refuses it when there are too many sessions.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, next http.Handler) {
	principal := auth.TokenInfoFromContext(r.Context()).UserID
	if of := s.enter(principal); of > 0 {
		http.Error(w, fmt.Sprintf("%d sessions are open; close one, or use protocol version %s", of, firstStateless), http.StatusServiceUnavailable)
		return
	}
	defer s.entered(w, principal)
	next.ServeHTTP(w, r)
}

// sessionOf returns the session that a request names. It returns nil if there is no such session, or if it belongs to another principal.
func (s *Server) sessionOf(r *http.Request) *mcp.ServerSession {
	id := r.Header.Get(sessionHeader)
	s.owners.mu.Lock()
	principal, known := s.owners.ids[id] // The session has no entry until its first request has ended.
	s.owners.mu.Unlock()
	if known && principal != auth.TokenInfoFromContext(r.Context()).UserID {
		return nil
	}
	for session := range s.sdk.Sessions() {
		if session.ID() == id {
			return session
		}
	}
	return nil
}

// entered remembers the principal of the session that a request has begun.
func (s *Server) entered(w http.ResponseWriter, principal string) {
	s.owners.mu.Lock()
	defer s.owners.mu.Unlock()
	if s.owners.begun[principal]--; s.owners.begun[principal] == 0 {
		delete(s.owners.begun, principal)
	}
	if id := w.Header().Get(sessionHeader); id != "" {
		s.owners.ids[id] = principal
	}
}

// enter counts a request that may begin a session. It returns 0, or the limit that the session would exceed. It also forgets the principals
// of sessions that have ended.
func (s *Server) enter(principal string) int {
	s.owners.mu.Lock()
	defer s.owners.mu.Unlock()
	open, all, own := map[string]string{}, 0, s.owners.begun[principal]
	for _, n := range s.owners.begun {
		all += n
	}
	for session := range s.sdk.Sessions() { // The SDK also counts each request of newer protocol versions as a session.
		if of, ok := s.owners.ids[session.ID()]; ok {
			open[session.ID()] = of
			all++
			if of == principal {
				own++
			}
		}
	}
	s.owners.ids = open
	switch {
	case own >= maxSessionsEach:
		return maxSessionsEach
	case all >= maxSessions:
		return maxSessions
	}
	if s.owners.begun == nil {
		s.owners.begun = map[string]int{}
	}
	s.owners.begun[principal]++
	return 0
}
