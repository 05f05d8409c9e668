package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/sdk/go/worker"
)

// The smallest image and sound: one red pixel, and a header without samples.
var (
	png = unbase64("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
	wav = unbase64("UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=")
)

func unbase64(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

type none struct{}

// serveFixtures connects a worker with the fixtures and waits until the daemon offers them. The worker ends with ctx.
func serveFixtures(ctx context.Context, address string) (*sync.WaitGroup, error) {
	var running sync.WaitGroup
	connected := make(chan struct{}, 1)
	w := worker.New(worker.Config{Address: address, Token: token(pool), Pool: "fixtures", Log: func(text string) {
		if !strings.HasPrefix(text, "connected ") {
			fmt.Fprintln(os.Stderr, "worker:", text)
			return
		}
		select {
		case connected <- struct{}{}:
		default:
		}
	}})
	addContent(w)
	addQuestions(w)
	addTasks(w)
	addChanges(ctx, w, address, &running)
	failed := make(chan error, 1)
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			failed <- err
		}
	})
	select {
	case <-connected:
		return &running, nil
	case err := <-failed:
		return &running, err
	case <-time.After(startLimit):
		return &running, fmt.Errorf("the worker did not connect within %v", startLimit)
	}
}

// read returns a tool that changes nothing and needs no approval.
func read(id, description string) worker.Tool {
	return worker.Tool{ID: id, Description: description, ReadOnly: true, Observe: true, ConcurrencySafe: true}
}

// change returns a tool that changes something. The rules of the daemon allow it.
func change(id, description string) worker.Tool {
	return worker.Tool{ID: id, Description: description, Observe: true, ConcurrencySafe: true}
}

// asTask returns the tool with a value of the metadata mcp.task.
func asTask(t worker.Tool, when string) worker.Tool {
	t.Metadata = map[string]string{"mcp.task": when}
	return t
}

func text(w *worker.Worker, id, description, result string) {
	worker.Add(w, read(id, description), func(context.Context, *worker.Call, none) (string, error) { return result, nil })
}

// pieces adds a tool that returns content.
func pieces(w *worker.Worker, id, description, message string, content ...*tooldv1.Content) {
	worker.Add(w, read(id, description), func(context.Context, *worker.Call, none) (*tooldv1.WorkerResult, error) {
		return &tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: "null", Message: message, Content: content}, nil
	})
}

func addContent(w *worker.Worker) {
	image := &tooldv1.Content{Type: tooldv1.ContentType_CONTENT_TYPE_IMAGE, MimeType: "image/png", Data: png}
	resource := func(uri, mime, text string) *tooldv1.Content {
		return &tooldv1.Content{Type: tooldv1.ContentType_CONTENT_TYPE_DOCUMENT, Uri: uri, MimeType: mime, Data: []byte(text)}
	}
	text(w, "test_simple_text", "Returns a text.", "This is a simple text response for testing.")
	text(w, "test_logging_tool", "Returns a text and logs nothing.", "Done.")
	text(w, "test_streaming_elicitation", "Returns a text and asks nothing.", "Done.")
	pieces(w, "test_image_content", "Returns an image.", "A red pixel.", image)
	pieces(w, "test_audio_content", "Returns a sound.", "Silence.", &tooldv1.Content{Type: tooldv1.ContentType_CONTENT_TYPE_AUDIO, MimeType: "audio/wav", Data: wav})
	pieces(w, "test_embedded_resource", "Returns a resource.", "A resource.", resource("test://embedded-resource", "text/plain", "This is an embedded resource content."))
	pieces(w, "test_multiple_content_types", "Returns a text, an image and a resource.", "Multiple content types test:", image,
		resource("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`))
	worker.Add(w, read("test_error_handling", "Fails."), func(context.Context, *worker.Call, none) (string, error) {
		return "", worker.Fail("INTENDED", "This tool intentionally returns an error for testing")
	})
	worker.Add(w, read("test_tool_with_progress", "Reports progress."), func(ctx context.Context, c *worker.Call, _ none) (string, error) {
		for _, loaded := range []int64{0, 50, 100} {
			c.ReportProgress(&tooldv1.Progress{Loaded: loaded, Total: 100})
			if err := sleep(ctx, 50*time.Millisecond); err != nil {
				return "", err
			}
		}
		return "Done.", nil
	})
	header := read("test_x_mcp_header", "Has a parameter that clients repeat in a header.")
	header.Parameters = json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)
	worker.Add(w, header, func(context.Context, *worker.Call, map[string]any) (string, error) { return "Done.", nil })
	schema := read("json_schema_2020_12_tool", "Has features of JSON Schema 2020-12.")
	schema.Parameters = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
		`"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},` +
		`"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},` +
		`"phone":{"type":"string"},"email":{"type":"string"}},"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],` +
		`"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},` +
		`"additionalProperties":false}`)
	worker.Add(w, schema, func(context.Context, *worker.Call, map[string]any) (string, error) { return "Done.", nil })
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// addChanges adds a tool that changes the list of tools: each of its calls connects another worker with another tool.
func addChanges(ctx context.Context, w *worker.Worker, address string, running *sync.WaitGroup) {
	var calls atomic.Int32
	worker.Add(w, change("test_trigger_tool_change", "Adds a tool to the list."), func(context.Context, *worker.Call, none) (string, error) {
		id := fmt.Sprintf("new_tool_%d", calls.Add(1))
		more := worker.New(worker.Config{Address: address, Token: token(pool), Pool: id})
		text(more, id, "Is new.", "Done.")
		running.Go(func() { _ = more.Run(ctx) }) // Ignore the error: the client of the test notices when the tool does not appear.
		return "Added " + id + ".", nil
	})
}
