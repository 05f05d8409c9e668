// Package calllog keeps the log of each call: it filters and numbers events, publishes them to watchers and writes them to
// the journal.
//
// [Filters] are the Filter hooks of one call. An event passes them before it gets its number, so neither the journal nor a
// watcher has what a filter removed.
package calllog
