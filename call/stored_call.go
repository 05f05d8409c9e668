package call

import "github.com/toold-dev/toold/tool"

func callFields(w *wire, c *Call) {
	text(w, 1, &c.Namespace)
	text(w, 2, &c.ID)
	text(w, 3, &c.ModelCallID)
	text(w, 4, &c.Tool)
	text(w, 5, &c.ToolDigest)
	text(w, 6, &c.RetryOf)
	part(w, 7, &c.Run, runFields)
	part(w, 8, &c.Caller, principalFields)
	text(w, 9, &c.OnBehalfOf)
	text(w, 10, &c.RequestDigest)
	part(w, 11, &c.Timeouts, timeoutsFields)
	flag(w, 12, &c.Detached)
	optional(w, 13, &c.Linger)
	text(w, 14, &c.Requested)
	text(w, 15, &c.Effective)
	texts(w, 16, &c.Rewriters)
	text(w, 17, &c.Class)
	text(w, 18, &c.Status)
	text(w, 19, &c.Executed)
	part(w, 20, &c.Assessment, effectsFields)
	part(w, 21, &c.Description, descriptionFields)
	list(w, 22, &c.Verdicts, verdictFields)
	list(w, 23, &c.Rounds, roundFields)
	list(w, 24, &c.Attempts, attemptFields)
	blob(w, 25, &c.Checkpoint)
	pointer(w, 26, &c.Cancel, cancelFields)
	pointer(w, 27, &c.Result, resultFields)
	part(w, 28, &c.Isolation, isolationFields)
	text(w, 29, &c.BatchID)
	integer(w, 30, &c.BatchPosition)
	instant(w, 31, &c.Created)
	instant(w, 32, &c.Started)
	instant(w, 33, &c.Ended)
	integer(w, 34, &c.Revision)
	integer(w, 35, &c.LastSequence)
	list(w, 36, &c.Epochs, epochFields)
	pointer(w, 40, &c.Frontend, frontendFields)
	pointer(w, 41, &c.Purge, purgeFields)
	part(w, 42, &c.Turn, turnCallFields)
	list(w, 68, &c.HookRuns, hookRunFields)
	text(w, 70, &c.Trace)
	text(w, 71, &c.ModelReason)
}

func turnCallFields(w *wire, t *TurnCall) {
	flag(w, 1, &t.Strict)
	flag(w, 2, &t.Truncated)
}

func purgeFields(w *wire, p *Purge) {
	part(w, 1, &p.By, principalFields)
	instant(w, 2, &p.Time)
}

func frontendFields(w *wire, f *tool.FrontendTool) {
	text(w, 1, &f.Name)
	text(w, 2, &f.Description)
	blob(w, 3, &f.Parameters)
	blob(w, 4, &f.ResponseSchema)
}

func runFields(w *wire, r *tool.Run) {
	text(w, 1, &r.ID)
	text(w, 2, &r.Thread)
	text(w, 3, &r.ParentRun)
	text(w, 4, &r.ParentThread)
	text(w, 5, &r.ParentCall)
	part(w, 6, &r.Agent, agentFields)
	text(w, 7, &r.Origin)
	flag(w, 8, &r.Unattended)
	members(w, 9, &r.Labels, text)
}

func agentFields(w *wire, a *tool.Agent) {
	text(w, 1, &a.ID)
	text(w, 2, &a.Spec)
	texts(w, 3, &a.Allow)
	texts(w, 4, &a.Exclude)
}

func principalFields(w *wire, p *tool.Principal) {
	text(w, 1, &p.Namespace)
	text(w, 2, &p.Subject)
	texts(w, 3, &p.Roles)
	text(w, 4, &p.Method)
	texts(w, 64, &p.Groups)
}

func timeoutsFields(w *wire, t *tool.Timeouts) {
	integer(w, 1, &t.Queue)
	integer(w, 2, &t.Attempt)
}

func effectsFields(w *wire, e *tool.Effects) {
	text(w, 1, &e.Mutability)
	text(w, 2, &e.Safety)
	text(w, 3, &e.Tier)
	flag(w, 4, &e.ConcurrencySafe)
	flag(w, 5, &e.OpenWorld)
	list(w, 6, &e.Resources, resourceFields)
}

func resourceFields(w *wire, r *tool.Resource) {
	text(w, 1, &r.Kind)
	text(w, 2, &r.ID)
	flag(w, 3, &r.Shared)
}

func verdictFields(w *wire, v *GateVerdict) {
	text(w, 1, &v.Gate)
	text(w, 2, &v.Kind)
	text(w, 3, &v.Reason)
	flag(w, 4, &v.Overruled)
	flag(w, 5, &v.Answered)
	instant(w, 8, &v.Asked)
	integer(w, 9, &v.Took)
	text(w, 64, &v.Rule)
}

func hookRunFields(w *wire, r *HookRun) {
	text(w, 1, &r.Kind)
	text(w, 2, &r.Hook)
	instant(w, 3, &r.Asked)
	integer(w, 4, &r.Took)
	flag(w, 5, &r.Failed)
}

func attemptFields(w *wire, a *Attempt) {
	integer(w, 1, &a.Number)
	integer(w, 2, &a.Epoch)
	instant(w, 3, &a.Started)
	instant(w, 4, &a.Ended)
	pointer(w, 5, &a.Operation, operationFields)
	flag(w, 6, &a.Saved)
}

func operationFields(w *wire, o *Operation) {
	text(w, 1, &o.ID)
	integer(w, 2, &o.Every)
	integer(w, 3, &o.Expires)
}

func cancelFields(w *wire, r *CancelRequest) {
	part(w, 1, &r.By, principalFields)
	text(w, 2, &r.Reason)
	text(w, 3, &r.Cause)
	instant(w, 4, &r.Time)
}

func isolationFields(w *wire, i *Isolation) {
	text(w, 1, &i.Required)
	text(w, 2, &i.Network)
	list(w, 3, &i.Facts, factFields)
}

func factFields(w *wire, f *Fact) {
	text(w, 1, &f.Name)
	flag(w, 2, &f.Held)
}

func epochFields(w *wire, e *EpochStart) {
	integer(w, 1, &e.Epoch)
	integer(w, 2, &e.First)
}
