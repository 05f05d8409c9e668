package show

import tooldv1 "github.com/toold-dev/toold/proto/toold/v1"

// Batch shows what became of the calls of a batch, in model order.
func (v View) Batch(b *tooldv1.BatchFinished) string {
	rows := make([][]cell, len(b.GetResults()))
	for i, r := range b.GetResults() {
		rows[i] = []cell{
			{Line(r.GetCallId()), ""}, {Status(r.GetStatus()), statusColor(r.GetStatus())}, {Line(batchText(r)), ""},
		}
	}
	return v.table([]string{"CALL", "STATUS", "RESULT"}, idWidth, rows)
}

// batchText is what stands beside a call: what the model reads, or which question is open.
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
