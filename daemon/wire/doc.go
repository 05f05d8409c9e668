// Package wire fits the parts of the daemon together: each part names what it needs in interfaces of its own, and the
// adapters here are thin enough to be seen through. It reads no configuration.
package wire
