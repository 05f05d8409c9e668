package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
)

// asClient is an environment variable with the address of a daemon. When it is set, this test binary acts as the client of
// sdk/testdata/client.jsonl.
const asClient = "TOOLD_TEST_AS_CLIENT"

type object map[string]any

func playClient(address string) error {
	client, err := toold.Dial(address, toold.WithToken(os.Getenv("TOOLD_TEST_TOKEN")))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, out := context.Background(), json.NewEncoder(os.Stdout)
	greeted, err := client.Call(ctx, toold.NewSpec("greet", object{"name": "Ada"}))
	if err != nil {
		return err
	}
	spec := toold.NewSpec("tells", object{})
	spec.Run = &tooldv1.Run{RunId: "r1"}
	ran, err1 := kindsOf(client.Execute(ctx, &tooldv1.ExecuteToolRequest{Spec: spec}), nil)
	asked, err2 := client.Call(ctx, toold.NewSpec("asks", object{}))
	if err := errors.Join(out.Encode(object{"step": "call", "message": greeted.GetResult().GetMessage()}), out.Encode(object{"step": "execute", "events": ran}), err1, err2); err != nil {
		return err
	}
	forged := proto.CloneOf(asked)
	forged.EffectiveArguments = `{"file":"other"}`
	if errors.Is(toold.Verify(forged), toold.ErrDigest) {
		_ = out.Encode(object{"step": "verify", "forged": "refused"})
	}
	var ids []string
	for c, err := range client.Waiting(ctx, &tooldv1.ListCallsRequest{}) {
		if err != nil {
			return err
		}
		ids = append(ids, c.GetCallId())
	}
	_ = out.Encode(object{"step": "waiting", "ids": len(ids) == 1 && ids[0] == asked.GetCallId()})
	if err := playPeople(ctx, client, asked, out); err != nil {
		return err
	}
	resumed, err1 := kindsOf(client.Resume(ctx, asked, &tooldv1.Decision{Result: `"red"`}))
	painted, err2 := client.Calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: asked.GetCallId()})
	other, err3 := client.Call(ctx, toold.NewSpec("asks", object{}))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	_ = out.Encode(object{"step": "resume", "events": resumed, "message": painted.GetCall().GetResult().GetMessage()})
	declined, err := kindsOf(client.Decline(ctx, other, "no"))
	_ = out.Encode(object{"step": "decline", "status": declined})
	return errors.Join(err, playBatch(ctx, client, out), playWatch(ctx, client, out))
}

// playPeople asks who the client is, and claims a question.
func playPeople(ctx context.Context, client *toold.Client, asked *tooldv1.Call, out *json.Encoder) error {
	who, err := client.WhoAmI(ctx, asked)
	if err != nil {
		return err
	}
	right := who.GetTickets()[0]
	_ = out.Encode(object{"step": "whoami", "subject": who.GetPrincipal().GetSubject(), "approve": right.GetApprove().GetAllowed(), "remember": right.GetRemember().GetReason()})
	claim, err := client.Claim(ctx, asked, time.Minute)
	if err != nil {
		return err
	}
	err = client.Release(ctx, asked)
	_ = out.Encode(object{"step": "claim", "by": claim.GetClaimedBy().GetSubject(), "released": err == nil})
	return err
}

func playBatch(ctx context.Context, client *toold.Client, out *json.Encoder) error {
	batch := &tooldv1.BatchSpec{Strategy: tooldv1.BatchStrategy_BATCH_STRATEGY_PARALLEL}
	for _, name := range []string{"a", "b"} {
		batch.Calls = append(batch.Calls, toold.NewSpec("greet", object{"name": name}))
	}
	var messages []string
	for f, err := range client.Batch(ctx, &tooldv1.ExecuteBatchRequest{Spec: batch}) {
		if err != nil {
			return err
		}
		for _, r := range f.GetBatchFinished().GetResults() {
			messages = append(messages, r.GetResult().GetMessage())
		}
	}
	return out.Encode(object{"step": "batch", "messages": messages})
}

// playWatch watches a call while the test kills the daemon.
func playWatch(ctx context.Context, client *toold.Client, out *json.Encoder) error {
	spec := toold.NewSpec("asks", object{})
	spec.CallId = "watched-over-a-kill"
	if _, err := client.Call(ctx, spec); err != nil {
		return err
	}
	var sequences []int64
	watching := false
	for f, err := range client.Watch(ctx, &tooldv1.WatchCallsRequest{
		Selector: &tooldv1.WatchCallsRequest_CallId{CallId: spec.CallId}, AfterSequence: proto.Int64(0), Follow: true,
	}) {
		if err != nil {
			return err
		}
		for _, e := range f.GetEvents() {
			sequences = append(sequences, e.GetSequence())
		}
		if len(sequences) == 3 && !watching {
			watching = true
			_ = out.Encode(object{"step": "watching"})
		}
	}
	return out.Encode(object{"step": "watch", "sequences": sequences})
}

// kindsOf returns the kinds of the events of a stream, as the API names them.
func kindsOf(events iter.Seq2[*tooldv1.CallEvent, error], err error) (string, error) {
	if err != nil {
		return "", err
	}
	var kinds []string
	for e, err := range events {
		if err != nil {
			return "", err
		}
		var name strings.Builder
		for i, c := range strings.TrimPrefix(fmt.Sprintf("%T", e.GetEvent()), "*tooldv1.CallEvent_") {
			if unicode.IsUpper(c) && i > 0 {
				name.WriteByte('_')
			}
			name.WriteRune(unicode.ToLower(c))
		}
		kinds = append(kinds, name.String())
	}
	return strings.Join(kinds, " "), nil
}
