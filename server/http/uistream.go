package httpserver

import (
	"net/http"
	"strconv"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/uistream"
)

// uiRun sends a run in the form of the AI SDK.
func (s *Server) uiRun(w http.ResponseWriter, r *http.Request) { s.uiStream(w, r, r.PathValue("run")) }

// uiThread sends the newest run of a thread. If the id of the chat is the id of the thread, useChat requests this route after a reload of the
// page.
func (s *Server) uiThread(w http.ResponseWriter, r *http.Request) {
	run, err := s.newestRun(r.Context(), &tooldv1.ListCallsRequest{ThreadId: r.PathValue("thread")})
	if err != nil {
		writeError(w, r, err)
		return
	}
	s.uiStream(w, r, run.GetRunId())
}

func (s *Server) uiStream(w http.ResponseWriter, r *http.Request, run string) {
	q, err := uiQueryOf(r)
	if err != nil {
		writeError(w, r, err)
		return
	}
	if run != "" {
		counts, err := s.counts(r.Context(), run)
		if err != nil {
			writeError(w, r, err)
			return
		}
		if active(counts) == 0 && !(q.ended && all(counts) > 0) {
			run = ""
		}
	}
	if run == "" {
		w.WriteHeader(http.StatusNoContent) // No call is active. useChat then keeps the messages that it has.
		return
	}
	if q.messageID == "" {
		q.messageID = run
	}
	w.Header().Set("X-Vercel-AI-UI-Message-Stream", "v1")
	stream := runStream[uistream.Chunk]{
		server: s, run: run, mapper: uistream.New(q.messageID, q.version), waits: q.waits, trailer: "data: [DONE]\n\n",
	}
	stream.serve(w, r)
}

// A uiQuery holds the query parameters of a UI message stream.
type uiQuery struct {
	version      int    // major version of the AI SDK
	messageID    string // empty means the id of the run
	waits, ended bool
}

func uiQueryOf(r *http.Request) (uiQuery, error) {
	values, q := r.URL.Query(), uiQuery{version: 6}
	for name, list := range values {
		var err error
		switch value := list[0]; {
		case len(list) > 1:
			err = invalid(name, "is set twice")
		case name == "version":
			if q.version, err = strconv.Atoi(value); err != nil || q.version < 6 || q.version > 99 {
				err = invalid(name, "want the major version of the AI SDK, 6 or later")
			}
		case name == "message_id":
			q.messageID = value
		case name == "wait_for_decision":
			q.waits, err = boolOf(name, value)
		case name == "ended":
			q.ended, err = boolOf(name, value)
		default:
			err = invalid(name, "is unknown; want version, message_id, wait_for_decision or ended")
		}
		if err != nil {
			return uiQuery{}, err
		}
	}
	return q, nil
}

func boolOf(name, value string) (bool, error) {
	b, err := strconv.ParseBool(value)
	if err != nil {
		return false, invalid(name, "want true or false")
	}
	return b, nil
}
