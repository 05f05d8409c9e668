package call

// A ToolLimit bounds how many calls of a tool run at once.
type ToolLimit struct {
	Tools string // glob on ids; each matching tool is counted alone, also when two sources have tools with the same id
	Calls int
}

// A Backup says what a copy of a store holds.
type Backup struct {
	Calls int64
	Files int   // of output
	Bytes int64 // of all files
}
