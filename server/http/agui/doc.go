// Package agui translates the frames of a run to the events of the Agent-User Interaction Protocol (AG-UI) 1.0.
//
// A [Mapper] turns the frames into one AG-UI run: an assistant message for each turn, a tool message for each result, and activity messages
// for everything that has no event in the protocol. Open questions end the run as interrupts. The package does no I/O.
package agui
