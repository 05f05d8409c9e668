package lifecycle

// Limits are the limits of one engine.
type Limits struct {
	Slots     *Slots
	Threads   Threads
	Questions Questions
	Circuits  Circuits
	Storage   Storage
}
