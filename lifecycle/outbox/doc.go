// Package outbox carries out the work that follows a commit: the actions of calls, the posts of notifiers, and the polls of operations
// that continue outside of the daemon.
//
// An action is a request to a handler that is stored in the same transaction as the step of the call that asks for it. The outbox
// attempts it at least once, also after a crash, and the actions of one call in their order. An action that fails for good stays as a
// dead letter, which an operator can retry. A post is an action that a notifier takes from its queue.
package outbox
