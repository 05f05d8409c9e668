package tool

import "time"

// A Definition is a descriptor with its digest. It is shared, so callers must not change it.
type Definition struct {
	Descriptor Descriptor
	Digest     string // digest of Descriptor
}

// A QuarantinedTool is a tool whose definition differs from the trusted one. Clients cannot see or call it, but its names stay reserved.
type QuarantinedTool struct {
	Source    string
	Namespace string // the only namespace in which the source's tools exist; empty means all namespaces
	Trusted   Definition
	Waiting   Definition // the definition that waits for trust, as the source sent it, without the operator's overrides
	Since     time.Time  // when this daemon first received Waiting
	RefusedBy string     // subject of the operator that refused Waiting; empty while it waits for an answer
	RefusedAt time.Time
}

// A JudgedDefinition is a definition of a tool that is trusted or that an operator refused.
type JudgedDefinition struct {
	Definition
	Position int64 // judgements have ascending positions
	Time     time.Time
	By       string // subject of the operator; empty when the definition was trusted because it was the first one
	Refused  bool
}
