// Package subagent gives a task to another model and lets it use tools.
//
// A subagent is a tool. Its call asks a model behind an OpenAI-compatible or Anthropic endpoint, carries the tool calls of each
// answer out as one turn, gives the model the results, and ends with the model's last message. A turn is an ordinary batch of
// ordinary calls of the caller, in a run of its own, through the one path of the daemon ([Caller]): nothing is allowed there that
// would not be allowed to the caller itself.
//
// What the model said is in the call's checkpoint before any tool runs, and the ids of the calls of a turn follow from it. So a
// call that is taken up again, after a crash or weeks later, continues where it was: a finished turn is not asked for again, and a
// tool call of it is found, not repeated. While calls of a turn wait for people the subagent suspends itself and holds nothing;
// the daemon resumes it when they have ended ([Waiting]).
package subagent
