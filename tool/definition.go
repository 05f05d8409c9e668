package tool

// A Definition is a descriptor with its digest. It is shared, so callers must not change it.
type Definition struct {
	Descriptor Descriptor
	Digest     string // digest of Descriptor
}

// A QuarantinedTool is a tool whose definition differs from the trusted one. Clients cannot see or call it, but its names stay reserved.
type QuarantinedTool struct {
	Source    string
	Namespace string // the only namespace that has the tools of the source; empty means all
	Trusted   Definition
	Waiting   Definition // the source's own definition, without overrides
}
