// Package trace follows calls with OpenTelemetry: one span for each pass of a call, from its start or a decision to its end
// or a question, named and described by the semantic conventions for tools of language models.
//
// The context of a caller is taken from its traceparent by hand; gRPC's stats handler, which costs more than the rest of a
// short call, is not installed. Arguments, results, messages and output are in no span: they may hold secrets that redaction
// keeps from everything else.
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

// A Config says what is followed, and where it goes.
type Config struct {
	// Ratio is the share of calls that are followed, of those whose caller does not say: above 0, at most 1. What a caller
	// follows is followed, and what it does not follow is not.
	Ratio float64
	// Endpoint is the OTLP receiver, as a URL; empty: as OTEL_EXPORTER_OTLP_ENDPOINT and its like say.
	Endpoint string
	Version  string      // of the daemon
	OnError  func(error) // is called with what could not be sent; nil drops
}

// A Tracer is the engine's. The caller closes it.
type Tracer struct {
	provider *sdktrace.TracerProvider
	spans    trace.Tracer
}

// New returns a tracer that sends to an OTLP receiver, in batches and beside the calls. The receiver need not be there.
func New(ctx context.Context, cfg Config) (*Tracer, error) {
	if cfg.Ratio <= 0 || cfg.Ratio > 1 {
		return nil, fmt.Errorf("the share of calls that are followed is %v; it has to be above 0 and at most 1", cfg.Ratio)
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
		resource.WithFromEnv()) // OTEL_SERVICE_NAME has the last word
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, errors.Join(fmt.Errorf("OTLP: %w", err), exporter.Shutdown(ctx))
	}
	if cfg.OnError != nil { // the library has one place for this
		otel.SetErrorHandler(otel.ErrorHandlerFunc(cfg.OnError))
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.Ratio))))
	return &Tracer{provider: provider, spans: provider.Tracer("github.com/toold-dev/toold")}, nil
}

// Close sends what is left, for as long as ctx lets it.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// headers are the metadata of a request as the propagator reads them.
type headers metadata.MD

// Get implements [propagation.TextMapCarrier].
func (h headers) Get(key string) string {
	if values := metadata.MD(h).Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set implements [propagation.TextMapCarrier]; nothing is sent back.
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
	if c.Trace != "" { // a later pass belongs to the trace in which the call began, unless its decider has one
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

// name is that of the convention; a tool that does not exist has no name of its own.
func name(c *call.Call) string {
	if c.ToolDigest == "" {
		return "execute_tool"
	}
	return "execute_tool " + c.Tool
}

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
	if c.ModelCallID != "" {
		add("gen_ai.tool.call.id", c.ModelCallID)
	} else {
		add("gen_ai.tool.call.id", c.ID)
	}
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
		at(span, "question", c.Rounds[i].Suspension.Created, attribute.String("toold.action", c.Rounds[i].Suspension.Action))
		if d := c.Rounds[i].Decision; d != nil {
			at(span, "decision", d.Time, attribute.String("toold.decision", string(d.Action)))
		}
	}
	if c.Result != nil && c.Result.Error != nil {
		code := string(c.Result.Error.Code)
		span.SetAttributes(attribute.String("error.type", code))
		if c.Status == call.Failed {
			span.SetStatus(codes.Error, code) // its message may quote arguments
		}
	}
}

func at(span trace.Span, event string, when time.Time, about ...attribute.KeyValue) {
	span.AddEvent(event, trace.WithTimestamp(when), trace.WithAttributes(about...))
}
