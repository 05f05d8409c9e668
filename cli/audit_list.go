package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func auditListCommand(a *App) *cobra.Command {
	request := &tooldv1.ReadAuditRequest{NewestFirst: true}
	var since, until string
	limit := 50
	c := &cobra.Command{
		Use: "list", Short: "List records, newest first", Args: NoArgs,
		Example: "  toold audit list --principal tam --since 7d\n  toold audit list --kind resumed,vote_recorded -n 10\n  toold audit list --call CALL -o jsonl",
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			var err error
			if request.StoredAfter, err = moment("--since", since, time.Now()); err != nil {
				return err
			}
			if request.StoredBefore, err = moment("--until", until, time.Now()); err != nil {
				return err
			}
			var all []*tooldv1.AuditRecord
			for limit == 0 || len(all) < limit {
				if limit > 0 {
					request.PageSize = int32(min(limit-len(all), 1000))
				}
				page, err := c.admin.ReadAudit(ctx, request)
				if err != nil {
					return err
				}
				all = append(all, page.GetRecords()...)
				if request.Before = page.GetNextPosition(); request.Before == 0 {
					break
				}
			}
			return printList(a, all, a.OutView().Audit(all))
		}),
	}
	f := c.Flags()
	f.StringVar(&request.Principal, "principal", "", "only records of calls, decisions, votes, cancellations and requests of this subject")
	f.StringVar(&request.CallId, "call", "", "only records of this call")
	f.StringSliceVar(&request.Kinds, "kind", nil, "only records of these kinds, such as resumed or operation; separate several kinds by commas")
	f.StringVar(&since, "since", "", "only since this time: 2h (2 hours ago), 7d, or 2027-01-31T00:00:00Z")
	f.StringVar(&until, "until", "", "only before this time, in the same form as --since")
	f.IntVarP(&limit, "limit", "n", limit, "largest number to list; 0 means all")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

func auditCheckpointsCommand(a *App) *cobra.Command {
	limit := 20
	c := &cobra.Command{
		Use: "checkpoints", Short: "List the signed checkpoints, newest first", Args: NoArgs,
		Example: "  toold audit checkpoints\n  toold audit checkpoints -n 1 -o jsonl | jq -r .line >> elsewhere.jsonl",
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			var all []*tooldv1.AuditCheckpoint
			for request := (&tooldv1.ListAuditCheckpointsRequest{}); len(all) < limit; {
				request.PageSize = int32(min(limit-len(all), 100))
				page, err := c.admin.ListAuditCheckpoints(ctx, request)
				if err != nil {
					return err
				}
				found := page.GetCheckpoints()
				if len(found) == 0 {
					break
				}
				all, request.Before = append(all, found...), found[len(found)-1].GetPosition()
			}
			return printList(a, all, a.OutView().Checkpoints(all))
		}),
	}
	c.Flags().IntVarP(&limit, "limit", "n", limit, "largest number to list")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

func auditCheckCommand(a *App) *cobra.Command {
	request := &tooldv1.VerifyAuditRequest{}
	var file string
	c := &cobra.Command{
		Use: "check", Short: "Let the daemon verify its chain", Args: NoArgs,
		Long: `The daemon verifies the chain of your namespace. It compares the chain with its
own checkpoints, and with those in the file of --checkpoints. The exit code is 1
when the daemon finds a problem.

An attacker who controls the daemon's machine can forge the answer. "toold audit
verify" therefore verifies the chain on your machine.`,
		Example: "  toold audit check\n  toold audit check --checkpoints /mnt/elsewhere/checkpoints.jsonl",
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			if file != "" {
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				request.Checkpoints = string(text)
			}
			total := &tooldv1.VerifyAuditResponse{}
			for !total.GetDone() {
				part, err := c.admin.VerifyAudit(ctx, request)
				if err != nil {
					return err
				}
				add(total, part)
				request.After, request.Link, request.FromCheckpoint = part.GetPosition(), part.GetLink(), false
			}
			return a.printChecked(total)
		}),
	}
	c.Flags().BoolVar(&request.FromCheckpoint, "new", false, "verify only the records since the newest checkpoint")
	c.Flags().StringVar(&file, "checkpoints", "", "file of checkpoints that is stored elsewhere; at most 1 MiB")
	a.OutputFlag(c, FormTable, FormJSON)
	return c
}

// add adds the result for the next part of a chain.
func add(total, part *tooldv1.VerifyAuditResponse) {
	if total.GetFrom() == nil {
		total.From = part.GetFrom()
	}
	if part.GetTo() != nil {
		total.To = part.GetTo()
	}
	if part.GetNewest() != nil {
		total.Newest = part.GetNewest()
	}
	total.Records += part.GetRecords()
	total.Checkpoints += part.GetCheckpoints()
	total.Position, total.Link, total.Done = part.GetPosition(), part.GetLink(), part.GetDone()
	total.Trimmed = total.GetTrimmed() || part.GetTrimmed()
	total.Findings = append(total.Findings, part.GetFindings()...)
}

func (a *App) printChecked(r *tooldv1.VerifyAuditResponse) error {
	if err := a.Print(r, a.OutView().Verified(r)); err != nil {
		return err
	}
	if n := len(r.GetFindings()); n > 0 {
		return fmt.Errorf("the chain was changed after it was recorded: %d findings", n)
	}
	return nil
}
