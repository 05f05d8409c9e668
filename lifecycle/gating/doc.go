// Package gating combines the verdicts of gates, and decides whether an answer still applies to a call.
//
//   - [Verdicts] combines the verdicts of a call's gates: Block beats Suspend beats SetResult beats Allow.
//   - [CheckVerdict] and [CheckTicket] refuse questions that people could not answer safely.
//   - [MachineActions] lists the actions of questions that no person answers.
//   - [Basis] identifies the tool and the arguments for which a question is asked or an attempt starts. An answer applies only to the basis that it was given for.
//
// The package calls no gate and stores nothing: the engine does.
package gating
