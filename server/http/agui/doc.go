// Package agui translates the frames of a run to the events of the Agent-User Interaction Protocol (AG-UI) 1.0.
//
// A [Mapper] makes one AG-UI run of them: an assistant message for each turn, a tool message for each result, and activity messages for what
// the protocol has no event for. Open questions end the run as interrupts. It does no I/O.
package agui
