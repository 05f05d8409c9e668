package tool

// A Definition is a descriptor with its digest. It is shared: read it only.
type Definition struct {
	Descriptor Descriptor
	Digest     string // of Descriptor
}

// A QuarantinedTool has another definition than the one that is trusted. Nobody can see or call it, but its names stay taken.
type QuarantinedTool struct {
	Source    string
	Namespace string // whose callers alone have the tools of the source; "": all
	Trusted   Definition
	Waiting   Definition // the source's own, without overrides
}
