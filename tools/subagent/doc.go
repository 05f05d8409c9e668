// Package subagent provides a tool that gives a task to another model, which may use tools.
//
// A call of the tool sends the task to a model behind an OpenAI-compatible or Anthropic endpoint. It executes the tool calls of each answer
// as one turn and sends the results to the model. The result of the call is the model's last message. A turn is an ordinary batch of calls
// by the same caller, in a separate run, through the daemon ([Caller]). So a subagent may do nothing that its caller may not do.
//
// The checkpoint of the call makes a resumed call continue where it stopped, after a crash or weeks later. It contains the model's answer
// before any tool of that answer runs, and it determines the ids of the calls. So the subagent does not ask the model again for a finished
// turn, and finds its tool calls by their ids instead of repeating them.
//
// While calls of a turn wait for people, the subagent suspends and holds no resources. The daemon resumes it when the calls have ended
// ([Waiting]).
package subagent
