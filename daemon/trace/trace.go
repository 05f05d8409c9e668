// Package trace traces calls with OpenTelemetry. It records one span for each pipeline run of a call: from its start or a decision to its
// end or its next question. Names and attributes follow the OpenTelemetry semantic conventions for generative AI tools.
//
// The package reads the traceparent header of a request itself. It does not install the stats handler of gRPC, which would cost more than
// all other work of a short call.
//
// A span never contains arguments, results, messages or output, because these may hold secrets that redaction removes everywhere else.
package trace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/toold-dev/toold/call"
)

// A Config says which calls are traced, and where spans are sent.
type Config struct {
	// Ratio is the share of calls to trace, greater than 0 and at most 1. If a request itself says whether to trace its call, Ratio does not
	// apply.
	Ratio float64
	// Endpoint is the URL of the OTLP receiver. When it is empty, OTEL_EXPORTER_OTLP_ENDPOINT and the related variables apply.
	Endpoint string
	Version  string      // version of the daemon
	OnError  func(error) // receives each error of sending spans; nil ignores them
}

// A Tracer records the spans of the engine's calls. Its owner must call Close.
type Tracer struct {
	provider *sdktrace.TracerProvider
	spans    trace.Tracer
}

// New returns a Tracer that sends spans to an OTLP receiver in batches, in the background. It does not need the receiver to be reachable.
func New(ctx context.Context, cfg Config) (*Tracer, error) {
	if cfg.Ratio <= 0 || cfg.Ratio > 1 {
		return nil, fmt.Errorf("the share of traced calls is %v; want more than 0 and at most 1", cfg.Ratio)
	}
	var options []otlptracegrpc.Option
	if cfg.Endpoint != "" {
		options = append(options, otlptracegrpc.WithEndpointURL(cfg.Endpoint))
	}
	exporter, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("OTLP: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "toold"), attribute.String("service.version", cfg.Version)),
		resource.WithFromEnv()) // OTEL_SERVICE_NAME overrides the name
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, errors.Join(fmt.Errorf("OTLP: %w", err), exporter.Shutdown(ctx))
	}
	if cfg.OnError != nil { // The handler is global, because the library has no other.
		otel.SetErrorHandler(otel.ErrorHandlerFunc(cfg.OnError))
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.Ratio))))
	return &Tracer{provider: provider, spans: provider.Tracer("github.com/toold-dev/toold")}, nil
}

// Close sends the spans that are left, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// headers adapts the metadata of a request to the propagator.
type headers metadata.MD

// Get implements [propagation.TextMapCarrier].
func (h headers) Get(key string) string {
	if values := metadata.MD(h).Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set implements [propagation.TextMapCarrier]. It does nothing, because the daemon sends no trace headers back.
func (headers) Set(string, string) {}

// Keys implements [propagation.TextMapCarrier].
func (h headers) Keys() []string {
	keys := make([]string, 0, len(h))
	for k := range h {
		keys = append(keys, k)
	}
	return keys
}

// Begin implements the Tracer of lifecycle/trace.
func (t *Tracer) Begin(request context.Context, c *call.Call) (context.Context, string) {
	ctx := context.Background()
	if md, ok := metadata.FromIncomingContext(request); ok {
		ctx = propagation.TraceContext{}.Extract(ctx, headers(md))
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal)}
	if c.Trace != "" { // A later pipeline run belongs to the trace of the call's start, unless the request with the decision has its own trace.
		first := propagation.TraceContext{}.Extract(context.Background(), headers{"traceparent": {c.Trace}})
		if trace.SpanContextFromContext(ctx).IsValid() {
			options = append(options, trace.WithLinks(trace.LinkFromContext(first)))
		} else {
			ctx = first
		}
	}
	ctx, span := t.spans.Start(ctx, name(c), options...)
	if !span.IsRecording() {
		return ctx, parent(span)
	}
	span.SetAttributes(attributes(c)...)
	return ctx, parent(span)
}

// name returns the span name that the semantic conventions define. It leaves out the name of a tool that does not exist.
func name(c *call.Call) string {
	if c.ToolDigest == "" {
		return "execute_tool"
	}
	return "execute_tool " + c.Tool
}

// maxModelID is the maximum length in bytes of the id that the model gave to a call. If that id is longer or missing, the span has the
// call's own id.
const maxModelID = 1 << 10

func attributes(c *call.Call) []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.type", "function"),
		attribute.String("toold.call.id", c.ID),
		attribute.String("toold.namespace", c.Namespace),
	}
	add := func(key, value string) {
		if value != "" {
			list = append(list, attribute.String(key, value))
		}
	}
	if c.ToolDigest != "" {
		add("gen_ai.tool.name", c.Tool)
	}
	id := c.ModelCallID
	if id == "" || len(id) > maxModelID {
		id = c.ID
	}
	add("gen_ai.tool.call.id", id)
	add("gen_ai.conversation.id", c.Run.Thread)
	add("gen_ai.agent.id", c.Run.Agent.ID)
	add("toold.run.id", c.Run.ID)
	return list
}

func parent(span trace.Span) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return carrier["traceparent"]
}

// End implements the Tracer of lifecycle/trace.
func (t *Tracer) End(ctx context.Context, c *call.Call) {
	span := trace.SpanFromContext(ctx)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("toold.status", string(c.Status)), attribute.String("toold.executed", string(c.Executed)),
		attribute.Int("toold.attempts", len(c.Attempts)), attribute.Int("toold.questions", len(c.Rounds)))
	for i := range c.Attempts {
		at(span, "attempt", c.Attempts[i].Started, attribute.Int("toold.attempt", c.Attempts[i].Number))
	}
	for i := range c.Rounds {
		at(span, "question", c.Rounds[i].Suspension.Created.Time(), attribute.String("toold.action", c.Rounds[i].Suspension.Action))
		if d := c.Rounds[i].Decision; d != nil {
			at(span, "decision", d.Time, attribute.String("toold.decision", string(d.Action)))
		}
	}
	if c.Result != nil && c.Result.Error != nil {
		code := string(c.Result.Error.Code)
		span.SetAttributes(attribute.String("error.type", code))
		if c.Status == call.Failed {
			span.SetStatus(codes.Error, code) // Leave out the message, because it may quote arguments.
		}
	}
}

func at(span trace.Span, event string, when time.Time, about ...attribute.KeyValue) {
	span.AddEvent(event, trace.WithTimestamp(when), trace.WithAttributes(about...))
}
