package grpcserver_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

func (w *world) documents(user string) tooldv1.DocumentServiceClient {
	return tooldv1.NewDocumentServiceClient(w.as(user))
}

const (
	ofRun       = tooldv1.DocumentScope_DOCUMENT_SCOPE_RUN
	ofThread    = tooldv1.DocumentScope_DOCUMENT_SCOPE_THREAD
	ofNamespace = tooldv1.DocumentScope_DOCUMENT_SCOPE_NAMESPACE
)

// begin starts the run r and the thread t as alice.
func (w *world) begin() {
	w.t.Helper()
	_, err := w.calls("alice").CallTool(within(w.t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "echo", Arguments: `{"text":"x"}`, Run: &tooldv1.Run{RunId: "r", ThreadId: "t"}}})
	must(w.t, err)
}

func put(scope tooldv1.DocumentScope, id, key, value string, expected ...int64) *tooldv1.PutDocumentRequest {
	req := &tooldv1.PutDocumentRequest{Scope: scope, ScopeId: id, Key: key, Value: value}
	if len(expected) > 0 {
		req.ExpectedRevision = &expected[0]
	}
	return req
}

// wantField checks that err is a refusal that names one field.
func wantField(t *testing.T, err error, field string) {
	t.Helper()
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok && len(bad.GetFieldViolations()) == 1 && bad.GetFieldViolations()[0].GetField() == field && status.Code(err) == codes.InvalidArgument {
			return
		}
	}
	t.Errorf("got %v, want a violation of %s", err, field)
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	w.begin()
	alice := w.documents("alice")
	for i, value := range []string{`{"n":9007199254740993}`, ` [1.0] `} {
		got, err := alice.PutDocument(within(t), put(ofThread, "t", "k", value, int64(i)))
		must(t, err)
		if got.GetRevision() != int64(i+1) {
			t.Errorf("revision %d", got.GetRevision())
		}
	}
	_, err := alice.PutDocument(within(t), put(ofThread, "t", "k", "3", 1))
	wantRefusal(t, err, codes.FailedPrecondition, "REVISION_MISMATCH")
	if found := metadataOf(err)["revision"]; found != "2" {
		t.Errorf("the metadata has the revision %q", found)
	}
	got, err := alice.GetDocument(within(t), &tooldv1.GetDocumentRequest{Scope: ofThread, ScopeId: "t", Key: "k"})
	must(t, err)
	if d := got.GetDocument(); d.GetValue() != ` [1.0] ` || d.GetRevision() != 2 || d.GetScope() != ofThread || d.GetScopeId() != "t" || d.GetKey() != "k" {
		t.Errorf("document %v", d)
	}
	one := int64(1)
	_, err = alice.DeleteDocument(within(t), &tooldv1.DeleteDocumentRequest{Scope: ofThread, ScopeId: "t", Key: "k", ExpectedRevision: &one})
	wantRefusal(t, err, codes.FailedPrecondition, "REVISION_MISMATCH")
	for _, want := range []bool{true, false} {
		response, err := alice.DeleteDocument(within(t), &tooldv1.DeleteDocumentRequest{Scope: ofThread, ScopeId: "t", Key: "k"})
		if err != nil || response.GetDeleted() != want {
			t.Errorf("deleted %v, %v", response, err)
		}
	}
	_, err = alice.GetDocument(within(t), &tooldv1.GetDocumentRequest{Scope: ofThread, ScopeId: "t", Key: "k"})
	wantRefusal(t, err, codes.NotFound, "DOCUMENT_NOT_FOUND")
	again, err := alice.PutDocument(within(t), put(ofThread, "t", "k", "4", 0))
	if err != nil || again.GetRevision() != 4 {
		t.Errorf("made again %v, %v", again, err)
	}
	_, err = w.calls("alice").EndRun(within(t), &tooldv1.EndRunRequest{RunId: "r"})
	must(t, err)
	_, err = alice.PutDocument(within(t), put(ofRun, "r", "k", "1"))
	wantRefusal(t, err, codes.FailedPrecondition, "RUN_ENDED")
}

func TestDocumentRequestsThatAreWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	w.begin()
	for field, req := range map[string]*tooldv1.PutDocumentRequest{
		"scope":             put(0, "t", "k", "1"),
		"scope_id":          put(ofThread, "", "k", "1"),
		"key":               put(ofThread, "t", "", "1"),
		"value":             put(ofThread, "t", "k", `{"a":1,"a":2}`),
		"expected_revision": put(ofThread, "t", "k", "1", -1),
	} {
		_, err := w.documents("alice").PutDocument(within(t), req)
		wantField(t, err, field)
	}
	_, err := w.documents("alice").PutDocument(within(t), put(99, "t", "k", "1"))
	wantField(t, err, "scope")
	_, err = w.documents("oscar").PutDocument(within(t), put(ofNamespace, "default", "k", "1"))
	wantField(t, err, "scope_id")
	_, err = w.documents("alice").PutDocument(within(t), put(ofThread, "t", strings.Repeat("k", 257), "1"))
	wantField(t, err, "key")
	_, err = w.documents("alice").PutDocument(within(t), put(ofThread, "t", "k", `"`+strings.Repeat("x", 256<<10)+`"`))
	wantField(t, err, "value")
	for i := range 256 {
		_, err := w.documents("alice").PutDocument(within(t), put(ofThread, "t", fmt.Sprint(i), "1"))
		must(t, err)
	}
	_, err = w.documents("alice").PutDocument(within(t), put(ofThread, "t", "one too many", "1"))
	wantRefusal(t, err, codes.FailedPrecondition, "SCOPE_FULL")
}

// TestT58DocumentsOfOthers (T58) checks that only the principal that started a run or thread may read and change its documents. The
// documents of a namespace have no owner.
func TestT58DocumentsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	w.begin()
	_, err := w.documents("alice").PutDocument(within(t), put(ofRun, "r", "k", `"secret"`))
	must(t, err)
	_, err = w.documents("oscar").PutDocument(within(t), put(ofNamespace, "", "k", `"shared"`))
	must(t, err)
	for _, tt := range []struct {
		user      string
		scope     tooldv1.DocumentScope
		id        string
		get, put  codes.Code
		why, also string
	}{
		{"alice", ofRun, "r", codes.OK, codes.OK, "", ""},
		{"vera", ofRun, "r", codes.OK, codes.PermissionDenied, "", ""}, // the role viewer may not write
		{"oscar", ofRun, "r", codes.OK, codes.OK, "", ""},
		{"bob", ofRun, "r", codes.NotFound, codes.NotFound, "RUN_NOT_FOUND", "RUN_NOT_FOUND"},
		{"dora", ofThread, "t", codes.NotFound, codes.NotFound, "THREAD_NOT_FOUND", "THREAD_NOT_FOUND"},
		{"mallory", ofRun, "r", codes.NotFound, codes.NotFound, "RUN_NOT_FOUND", "RUN_NOT_FOUND"}, // an operator of another namespace
		{"mallory", ofNamespace, "", codes.NotFound, codes.OK, "DOCUMENT_NOT_FOUND", ""},          // This reads the documents of mallory's own namespace.
		{"oscar", ofThread, "nobody's", codes.NotFound, codes.NotFound, "THREAD_NOT_FOUND", "THREAD_NOT_FOUND"},
		{"alice", ofNamespace, "", codes.PermissionDenied, codes.PermissionDenied, "NAMESPACE_DOCUMENTS", "NAMESPACE_DOCUMENTS"},
		{"vera", ofNamespace, "", codes.OK, codes.PermissionDenied, "", ""},
		{"oscar", ofNamespace, "", codes.OK, codes.OK, "", ""},
	} {
		t.Run(fmt.Sprint(tt.user, " ", tt.scope), func(t *testing.T) {
			_, err := w.documents(tt.user).GetDocument(within(t), &tooldv1.GetDocumentRequest{Scope: tt.scope, ScopeId: tt.id, Key: "k"})
			if status.Code(err) != tt.get {
				t.Errorf("get: %v, want %v", err, tt.get)
			}
			if tt.why != "" {
				wantRefusal(t, err, tt.get, tt.why)
			}
			_, err = w.documents(tt.user).PutDocument(within(t), put(tt.scope, tt.id, "k", `"x"`))
			if status.Code(err) != tt.put {
				t.Errorf("put: %v, want %v", err, tt.put)
			}
			if tt.also != "" {
				wantRefusal(t, err, tt.put, tt.also)
			}
		})
	}
	got, err := w.documents("oscar").GetDocument(within(t), &tooldv1.GetDocumentRequest{Scope: ofNamespace, Key: "k"})
	if err != nil || got.GetDocument().GetRevision() != 2 {
		t.Errorf("the namespace's document %v, %v", got, err)
	}
}

func TestListDocuments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	w.begin()
	big := `"` + strings.Repeat("x", 200<<10) + `"`
	for i := range 12 {
		_, err := w.documents("alice").PutDocument(within(t), put(ofThread, "t", fmt.Sprintf("k%02d", i), big))
		must(t, err)
	}
	_, err := w.documents("alice").PutDocument(within(t), put(ofThread, "t", "other", "1"))
	must(t, err)
	req := &tooldv1.ListDocumentsRequest{Scope: ofThread, ScopeId: "t", KeyPrefix: "k", PageSize: 10}
	var keys []string
	pages := 0
	for {
		got, err := w.documents("alice").ListDocuments(within(t), req)
		must(t, err)
		pages++
		for _, d := range got.GetDocuments() {
			keys = append(keys, d.GetKey())
		}
		if req.PageToken = got.GetNextPageToken(); req.PageToken == "" {
			break
		}
		_, err = w.documents("vera").ListDocuments(within(t), req)
		wantField(t, err, "page_token")
	}
	if got := strings.Join(keys, " "); got != "k00 k01 k02 k03 k04 k05 k06 k07 k08 k09 k10 k11" || pages < 3 {
		t.Errorf("%d pages: %s", pages, got)
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	for i := range 3 {
		a := store.Action{Namespace: "default", ID: fmt.Sprint("a-", i), CallID: "c", Caller: "alice", State: store.ActionDead, Round: 1, Attempts: 5, Error: "no",
			Created: w.store.Now(), Action: tool.Action{Handler: "h", Phase: tool.AfterCommit, Payload: `{"n":1.0}`}}
		_, err := w.store.Amend(t.Context(), &store.Amendment{Namespace: "default", Actions: []store.Action{a}})
		must(t, err)
	}
	oscar := tooldv1.NewAdminServiceClient(w.as("oscar"))
	req := &tooldv1.ListDeadLettersRequest{PageSize: 2}
	first, err := oscar.ListDeadLetters(within(t), req)
	must(t, err)
	req.PageToken = first.GetNextPageToken()
	second, err := oscar.ListDeadLetters(within(t), req)
	must(t, err)
	if len(first.GetDeadLetters()) != 2 || len(second.GetDeadLetters()) != 1 || second.GetNextPageToken() != "" {
		t.Fatalf("pages %v, %v", first, second)
	}
	if d := second.GetDeadLetters()[0]; d.GetActionId() != "a-2" || d.GetHandler() != "h" || d.GetPhase() != "AFTER_COMMIT" || d.GetPayload() != `{"n":1.0}` || d.GetError() != "no" || d.GetAttempts() != 5 {
		t.Errorf("dead letter %v", d)
	}
	mallory := tooldv1.NewAdminServiceClient(w.as("mallory"))
	if got, err := mallory.ListDeadLetters(within(t), &tooldv1.ListDeadLettersRequest{}); err != nil || len(got.GetDeadLetters()) != 0 {
		t.Errorf("another namespace's operator sees %v, %v", got, err)
	}
	_, err = mallory.RetryDeadLetter(within(t), &tooldv1.RetryDeadLetterRequest{ActionId: "a-1"})
	wantRefusal(t, err, codes.NotFound, "DEAD_LETTER_NOT_FOUND")
	again, err := oscar.RetryDeadLetter(within(t), &tooldv1.RetryDeadLetterRequest{ActionId: "a-1"})
	if err != nil || again.GetDeadLetter().GetAttempts() != 0 {
		t.Errorf("retry %v, %v", again, err)
	}
	_, err = oscar.RetryDeadLetter(within(t), &tooldv1.RetryDeadLetterRequest{ActionId: "a-1"})
	wantRefusal(t, err, codes.NotFound, "DEAD_LETTER_NOT_FOUND")
}
