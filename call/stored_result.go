package call

import "github.com/toold-dev/toold/tool"

// resultFields leaves out Documents: these commands are applied when the call commits.
func resultFields(w *wire, r *tool.Result) {
	text(w, 1, &r.ToolName)
	text(w, 2, &r.Status)
	text(w, 3, &r.Data)
	text(w, 4, &r.Message)
	list(w, 5, &r.Content, contentFields)
	pointer(w, 6, &r.Suspension, ticketFields)
	pointer(w, 7, &r.Error, errorFields)
	text(w, 8, &r.Display)
	members(w, 9, &r.Metadata, text)
	list(w, 10, &r.Artifacts, artifactFields)
	flag(w, 11, &r.Truncated)
	integer(w, 12, &r.Duration)
	pointer(w, 13, &r.Process, processFields)
}

func contentFields(w *wire, c *tool.Content) {
	text(w, 1, &c.Type)
	text(w, 2, &c.Text)
	text(w, 3, &c.MIMEType)
	blob(w, 4, &c.Data)
	text(w, 5, &c.URI)
	text(w, 6, &c.Artifact)
	text(w, 7, &c.Name)
}

func ticketFields(w *wire, t *tool.Ticket) {
	text(w, 1, &t.Action)
	text(w, 2, &t.Message)
	blob(w, 3, &t.Parameters)
	blob(w, 4, &t.ResponseSchema)
	text(w, 5, &t.ResumeMode)
	pointer(w, 6, &t.Approvers, approversFields)
	integer(w, 7, &t.ExpiresIn)
	text(w, 8, &t.DefaultResult)
	options := writeOptions(w, t.RememberOptions)
	texts(w, 9, &options.names)
	texts(w, 10, &options.titles)
	options.read(w, &t.RememberOptions)
}

func errorFields(w *wire, e *tool.Error) {
	text(w, 1, &e.Code)
	text(w, 2, &e.Reason)
	text(w, 3, &e.Message)
	list(w, 4, &e.Violations, violationFields)
	flag(w, 5, &e.Aborted)
	flag(w, 6, &e.TerminateRun)
	flag(w, 7, &e.Retryable)
	integer(w, 8, &e.RetryAfter)
	text(w, 9, &e.DeveloperMessage)
}

func violationFields(w *wire, v *tool.Violation) {
	text(w, 1, &v.Field)
	text(w, 2, &v.Description)
}

func artifactFields(w *wire, a *tool.Artifact) {
	text(w, 1, &a.Name)
	text(w, 2, &a.MIMEType)
	integer(w, 3, &a.Size)
}

func processFields(w *wire, p *tool.ProcessReport) {
	integers(w, 1, &p.Killed)
	instant(w, 2, &p.ConfirmedAt)
	integers(w, 3, &p.KillUnverified)
}
