// Package calllog keeps the log of each call. It filters and numbers events, publishes them to watchers and writes them to the journal.
//
// [Filters] applies the Filter hooks of one call. Events are filtered before they are numbered, so neither the journal nor a watcher
// receives data that a filter removed.
package calllog
