package show

import tooldv1 "github.com/toold-dev/toold/proto/toold/v1"

// Batch shows the outcome of each call of a batch, in the order in which the model made them.
func (v View) Batch(b *tooldv1.BatchFinished) string {
	rows := make([][]cell, len(b.GetResults()))
	for i, r := range b.GetResults() {
		rows[i] = []cell{
			{Line(r.GetCallId()), ""}, {Status(r.GetStatus()), statusColor(r.GetStatus())}, {Line(batchText(r)), ""},
		}
	}
	return v.table([]string{"CALL", "STATUS", "RESULT"}, idWidth, rows)
}

// batchText returns the text beside a call: what the model reads, or the open question.
func batchText(r *tooldv1.BatchResult) string {
	switch {
	case r.GetSuspensionId() != "":
		return "waits for an answer: " + r.GetSuspensionId()
	case r.GetLeftOut():
		return "too long to be shown here"
	case r.GetResult() != nil:
		return ResultText(r.GetResult())
	}
	return ""
}
