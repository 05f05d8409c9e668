package httpserver

import (
	"context"
	"io"
	"net/http"

	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/http/openapi"
	"github.com/toold-dev/toold/server/service"
)

// routes returns the handler of all requests. Each route is one line.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	methods := s.registerAPI(mux)
	s.registerLogin(mux)
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", s.readiness)
	mux.HandleFunc("GET /v1/ui/runs/{run}/stream", s.uiRun)
	mux.HandleFunc("GET /v1/ui/threads/{thread}/stream", s.uiThread)
	mux.HandleFunc("POST /v1/ui/decisions", s.uiDecisions)
	mux.HandleFunc("GET /v1/agui/runs/{run}/stream", s.aguiRun)
	mux.HandleFunc("GET /v1/agui/threads/{thread}/stream", s.aguiThread)
	mux.HandleFunc("POST /v1/agui/decisions", s.aguiDecisions)
	mux.HandleFunc("GET /v1/calls/{call}/artifacts/{name...}", s.artifact)
	mux.HandleFunc("GET /v1/watch", s.watch)
	mux.HandleFunc("GET /openapi.json", openapi.Serve)
	for _, path := range []string{"/v1/watch", "/v1/ui/runs/{run}/stream", "/v1/ui/threads/{thread}/stream", "/v1/agui/runs/{run}/stream", "/v1/agui/threads/{thread}/stream"} {
		mux.HandleFunc("HEAD "+path, refuseHead)
	}
	if s.cfg.Metrics != nil {
		mux.Handle("GET /metrics", s.permitted(access.MetricsMethod, s.cfg.Metrics))
	}
	if s.cfg.MCP != nil {
		mux.Handle("/mcp", s.cfg.MCP)
		mux.Handle("GET /.well-known/oauth-protected-resource", s.cfg.MCP)
		mux.Handle("GET /.well-known/oauth-protected-resource/mcp", s.cfg.MCP)
	}
	return s.endSlow(s.protect(s.withPages(s.withCredential(formFromQuery(route(methods, mux))))))
}

// withPages serves the pages of the console. It does not check the session, because a link on another site may open such a page.
func (s *Server) withPages(next http.Handler) http.Handler {
	if s.cfg.Pages == nil {
		return next
	}
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.Handle("GET /{$}", s.cfg.Pages)
	mux.Handle("GET /assets/", s.cfg.Pages)
	for _, page := range []string{"inbox", "calls", "runs", "threads", "tools", "policy", "audit", "status"} {
		mux.Handle("GET /"+page, s.cfg.Pages)
		mux.Handle("GET /"+page+"/", s.cfg.Pages)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func alive(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") }

func notReady(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusServiceUnavailable, "not ready")
}

// refuseHead refuses HEAD for a stream, because such a request would never end.
func refuseHead(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", http.MethodGet)
	w.WriteHeader(http.StatusMethodNotAllowed)
}

func (s *Server) readiness(w http.ResponseWriter, r *http.Request) {
	if !s.ready.Load() {
		notReady(w, r)
		return
	}
	answer(w, http.StatusOK, "ready")
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // Ignore the error: a write fails only when the client is gone.
}

// permitted serves a route that is not a method of the API. name is its entry in the table of package access.
func (s *Server) permitted(name string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := service.Unary(r.Context(), s.cfg.Service, name, func(context.Context, *struct{}) (*struct{}, error) {
			next.ServeHTTP(w, r)
			return &struct{}{}, nil
		}, &struct{}{})
		if err != nil {
			writeError(w, r, err)
		}
	})
}
