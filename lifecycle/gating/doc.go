// Package gating decides what the verdicts of gates mean together, and what a person's answer was given for.
//
//   - [Verdicts] combines what the gates of a call say: Block beats Suspend beats SetResult beats Allow.
//   - [CheckVerdict], [CheckTicket] and [CheckAction] refuse questions that nobody could answer safely.
//   - [Basis] is what a question and an attempt are about. An answer holds for exactly the basis that it was given for.
//
// The package asks no gate and stores nothing: the engine does.
package gating
