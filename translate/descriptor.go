package translate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// The defaults of fields of a descriptor that are never empty in the API.
const (
	defaultMaxArguments = 256 << 10
	defaultOutputBudget = 48 << 10
	noParameters        = `{"type":"object","additionalProperties":false}`
)

// FromDescriptor translates a descriptor and fills in the defaults.
func FromDescriptor(d *tool.Descriptor, digest string) *tooldv1.Descriptor {
	return &tooldv1.Descriptor{
		Id: d.ID, DisplayName: d.DisplayName, Description: d.Description, Category: d.Category,
		Parameters: cmp.Or(string(d.Parameters), noParameters), ResultSchema: string(d.ResultSchema),
		Effects: FromEffects(d.Effects), Mildest: FromEffects(d.MildestEffects()), Source: d.Source, Version: d.Version, Digest: digest,
		Guidance: d.Guidance, Aliases: d.Aliases, Idempotent: d.Idempotent, OnDoubt: fromOnDoubt(d.OnDoubt), Timeouts: fromTimeouts(d.Timeouts),
		MaxArguments: int32(cmp.Or(d.MaxArguments, defaultMaxArguments)), OutputBudget: int32(cmp.Or(d.OutputBudget, defaultOutputBudget)),
		RequiredIsolation: fromLevel(d.RequiredIsolation), RequiredNetwork: fromNetwork(d.RequiredNetwork), RequiredSecrets: d.RequiredSecrets,
		Annotations: d.Annotations, Metadata: d.Metadata,
	}
}

// ToDescriptor translates a descriptor. The registry checks it.
func ToDescriptor(d *tooldv1.Descriptor) (tool.Descriptor, error) {
	out := tool.Descriptor{
		ID: d.GetId(), DisplayName: d.GetDisplayName(), Description: d.GetDescription(), Category: d.GetCategory(),
		Parameters: ToJSON(d.GetParameters()), ResultSchema: ToJSON(d.GetResultSchema()), Effects: ToEffects(d.GetEffects()),
		Idempotent: d.GetIdempotent(), MaxArguments: int(d.GetMaxArguments()), OutputBudget: int(d.GetOutputBudget()),
		RequiredIsolation: tool.Isolation(map[string]string{"NONE": "none", "FULL": "full"}[Word(d.GetRequiredIsolation(), "ISOLATION_LEVEL_")]),
		RequiredSecrets:   d.GetRequiredSecrets(), Guidance: d.GetGuidance(), Annotations: d.GetAnnotations(), Aliases: d.GetAliases(),
		Version: d.GetVersion(), Metadata: d.GetMetadata(),
	}
	if m := d.GetMildest(); m != nil {
		mildest := ToEffects(m)
		out.Mildest = &mildest
	}
	if d.GetOnDoubt() == tooldv1.OnDoubt_ON_DOUBT_ASK {
		out.OnDoubt = tool.OnDoubtAsk
	}
	for _, t := range []struct {
		from *durationpb.Duration
		to   *time.Duration
	}{{d.GetTimeouts().GetQueue(), &out.Timeouts.Queue}, {d.GetTimeouts().GetAttempt(), &out.Timeouts.Attempt}} {
		if t.from == nil {
			continue
		}
		if *t.to = t.from.AsDuration(); t.from.CheckValid() != nil || *t.to <= 0 {
			return out, fmt.Errorf("timeouts: want durations of more than 0, or none")
		}
	}
	for _, text := range []json.RawMessage{out.Parameters, out.ResultSchema} {
		if len(text) > 0 && !json.Valid(text) {
			return out, fmt.Errorf("parameters and result_schema are JSON Schemas")
		}
	}
	return out, nil
}

// ToEffects translates effects. It leaves unspecified fields empty, so that their defaults apply.
func ToEffects(a *tooldv1.Assessment) tool.Effects {
	return tool.Effects{
		Mutability: tool.Mutability(Word(a.GetMutability(), "MUTABILITY_")), Safety: tool.Safety(Word(a.GetSafety(), "SAFETY_")),
		Tier: tool.Tier(Word(a.GetTier(), "TIER_")), ConcurrencySafe: a.GetConcurrencySafe(), OpenWorld: a.GetOpenWorld(),
		Resources: toResources(a.GetResources()),
	}
}

func toResources(list []*tooldv1.Resource) []tool.Resource {
	return Each(list, func(r **tooldv1.Resource) tool.Resource {
		return tool.Resource{Kind: (*r).GetKind(), ID: (*r).GetId(), Shared: (*r).GetShared()}
	})
}

func ToJSON(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}
