// Package outbox executes the work that follows a commit: the actions of calls, the posts of notifiers, and the polls of operations that
// continue outside the daemon.
//
// An action is a request to a handler. It is stored in the same transaction as the step of the call that requests it. The outbox executes
// each action at least once, even after a crash, and the actions of one call in their order. When the last attempt at an action fails, the
// action becomes a dead letter, which an operator can retry. A post is an action that a notifier reads from its queue.
package outbox
