package cli

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func auditCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:     "audit",
		Short:   "Read and verify the chain of audit records",
		Example: "  toold audit export > audit.jsonl\n  toold audit verify --checkpoints /mnt/elsewhere/checkpoints.jsonl\n  toold audit key --data data",
		Long: `With the setting audit.enabled, the daemon records the progress of each call and
the person who decided about it. A chain of hashes links the records, so a later
change of a record can be detected.

The daemon also signs the end of the chain in checkpoints. Copy the file of
checkpoints to a place where the daemon cannot write. Only checkpoints show that
the newest records were removed, or that the whole chain was rewritten.`,
	}
	c.AddCommand(auditExportCommand(a), auditListCommand(a), auditCheckCommand(a), auditCheckpointsCommand(a))
	return c
}

// An auditLine is one line of an exported audit log.
type auditLine struct {
	Namespace string          `json:"namespace"`
	Position  int64           `json:"position"`
	Time      time.Time       `json:"time"`
	Key       string          `json:"key"`
	CallID    string          `json:"call_id,omitempty"`
	Link      string          `json:"link"` // in hexadecimal
	Record    json.RawMessage `json:"record"`
}

func auditExportCommand(a *App) *cobra.Command {
	after := int64(0)
	c := &cobra.Command{
		Use:     "export",
		Short:   "Print the records as JSON lines, oldest first",
		Example: "  toold audit export > audit.jsonl\n  toold audit export --after 5120 >> audit.jsonl",
		Args:    NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			info, err := c.admin.GetInfo(ctx, &tooldv1.GetInfoRequest{})
			if err != nil {
				return err
			}
			out := bufio.NewWriter(a.Out)
			lines := json.NewEncoder(out)
			for r, err := range AuditRecords(ctx, c.admin, after) {
				if err == nil {
					err = lines.Encode(auditLine{
						info.GetNamespace(), r.GetPosition(), r.GetTime().AsTime(), r.GetKey(), r.GetCallId(), hex.EncodeToString(r.GetLink()), r.GetRecord(),
					})
				}
				if err != nil {
					return errors.Join(out.Flush(), err)
				}
			}
			return out.Flush()
		}),
	}
	c.Flags().Int64Var(&after, "after", 0, "begin after the record at this position")
	return c
}

// AuditRecords returns the records of the caller's namespace that follow position after. If a request fails, the last pair of the sequence
// has the error.
func AuditRecords(ctx context.Context, c tooldv1.AdminServiceClient, after int64) iter.Seq2[*tooldv1.AuditRecord, error] {
	return func(yield func(*tooldv1.AuditRecord, error) bool) {
		for {
			page, err := c.ReadAudit(ctx, &tooldv1.ReadAuditRequest{After: after})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range page.GetRecords() {
				if !yield(r, nil) {
					return
				}
				after = r.GetPosition()
			}
			if len(page.GetRecords()) == 0 {
				return
			}
		}
	}
}
