package call

// Weight returns about how many bytes an event has in addition to the fixed size of all events.
func (ev *Event) Weight() int {
	n := 0
	switch {
	case ev.Accepted != nil:
		n = len(ev.Accepted.Title) + len(ev.Accepted.ModelCallID)
	case ev.Output != nil:
		n = max(ev.Output.Length, len(ev.Output.Bytes))
	case ev.Activity != nil:
		n = len(ev.Activity.ID) + len(ev.Activity.Type) + len(ev.Activity.Content) + len(ev.Activity.Patch)
	case ev.Progress != nil:
		n = len(ev.Progress.Status) + len(ev.Progress.Message)
	case ev.Decision != nil:
		n = len(ev.Decision.Result) + len(ev.Decision.Arguments) + ev.Decision.ResultInstead.Size()
	case ev.Suspension != nil:
		s := ev.Suspension
		n = len(s.Message) + len(s.Parameters) + len(s.ResponseSchema) + len(s.Pending.Arguments)
	case ev.Outcome != nil && ev.Outcome.Result != nil:
		n = len(ev.Outcome.Result.Data) + len(ev.Outcome.Result.Message)
		for _, c := range ev.Outcome.Result.Content {
			n += len(c.Text) + len(c.Data)
		}
	}
	return n
}
