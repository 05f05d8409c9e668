// Package subagent gives a task to another model, which may use tools.
//
// A subagent is a tool. Its call sends the task to a model behind an OpenAI-compatible or Anthropic endpoint. It executes the tool calls of
// each answer as one turn, sends the results to the model, and ends with the model's last message. A turn is an ordinary batch of calls by
// the same caller, in a separate run, through the daemon ([Caller]). So a subagent may do nothing that its caller may not do.
//
// The call's checkpoint holds the model's answer before any tool runs, and determines the ids of the calls in a turn. So a call that
// resumes, after a crash or weeks later, continues where it was. It does not ask again for a finished turn. It finds the tool calls of the
// turn instead of repeating them.
//
// While calls of a turn wait for people, the subagent suspends and holds no resources. The daemon resumes it when the calls have ended
// ([Waiting]).
package subagent
