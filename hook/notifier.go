package hook

import "github.com/toold-dev/toold/call"

// A Notifier decides which services are notified about a call. It is asked about each EventSuspended and EventFinished, after all filters
// and before the event is stored. Its posts commit with the event, or not at all. It must only compute. Each post stays in its queue, even
// after a restart, until the sender of the queue reports that the post is delivered.
type Notifier interface {
	Notify(n Notice) []Post
	// Wake reports that posts of a queue have committed. It must return at once.
	Wake(queue string)
}

// A Notice is one event of a call. A Notifier must not modify it.
type Notice struct {
	StoreID string
	Call    *call.Call // state of the call after the event
	Event   *call.Event
}

// A Post is a message to be delivered. The engine gives it a permanent ID.
type Post struct {
	Queue   string
	Payload string // JSON text, at most 64 KiB
}
