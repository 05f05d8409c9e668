// Package gating combines the verdicts of gates, and defines to which arguments an answer applies.
//
//   - [Verdicts] combines the verdicts of a call's gates: Block beats Suspend beats SetResult beats Allow.
//   - [CheckVerdict] and [CheckTicket] refuse questions that people could not answer safely.
//   - [MachineActions] lists the actions of questions that no person answers.
//   - [Basis] identifies what a question or an attempt applies to. An answer applies only to the basis that it was given for.
//
// The package calls no gate and stores nothing: the engine does.
package gating
