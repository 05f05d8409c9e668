package call

// A TurnStarted is the first frame of a turn.
type TurnStarted struct {
	BatchID string // empty when the turn has no call for toold
	Calls   []TurnMember
}

// A TurnMember is a call of a turn.
type TurnMember struct {
	Index       int // position among all calls of the model's response, from 0
	CallID      string
	ModelCallID string
	Tool        string
}

// A TurnMessage is a part of one of the provider's messages. The parts of a message come in order.
type TurnMessage struct {
	Index int // index of the message, from 0
	Part  string
	Last  bool
}

// A TurnFinished is the last frame of a turn's stream.
type TurnFinished struct {
	Open       []string // ids of the calls without a result, in model order
	NotHandled []TurnOther
	RunBlocked bool // a gate blocked the run
}

// A TurnOther is a call in a model's response that toold does not run. The client runs it and sends its result to the model.
type TurnOther struct {
	Index int
	ID    string // the model's id of the call
	Type  string // the provider's type of the call
}
