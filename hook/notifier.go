package hook

import "github.com/toold-dev/toold/call"

// A Notifier says which services are notified about a call. It is asked about each EventSuspended and EventFinished as it is going to
// be stored, past all filters, and what it returns commits with the event, or not at all. It only computes. Each post waits in
// its queue, over restarts, until its sender reports that it was delivered.
type Notifier interface {
	Notify(n Notice) []Post
	// Wake reports that posts of a queue have committed. It returns at once.
	Wake(queue string)
}

// A Notice is one event of a call. It is read only.
type Notice struct {
	StoreID string
	Call    *call.Call // as it is with the event
	Event   *call.Event
}

// A Post is something to be delivered. The engine gives it an id that stays.
type Post struct {
	Queue   string
	Payload string // JSON text, at most 64 KiB
}
