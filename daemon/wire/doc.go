// Package wire connects the parts of the daemon. Each part declares the interfaces that it needs, and the small adapters here implement
// them with other parts. The package reads no configuration.
package wire
