package daemon

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/plugins/audit"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// auditOf reads the audit chain of a running daemon.
func auditOf(ctx context.Context, c tooldv1.AdminServiceClient, namespace string) iter.Seq2[call.ChainRecord, error] {
	return func(yield func(call.ChainRecord, error) bool) {
		for r, err := range cli.AuditRecords(ctx, c, 0) {
			line := call.ChainRecord{
				Namespace: namespace, Position: r.GetPosition(), Time: r.GetTime().AsTime(), Key: r.GetKey(), CallID: r.GetCallId(),
				Link: r.GetLink(), Record: r.GetRecord(),
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

// auditFlags are the flags of verify.
type auditFlags struct {
	checkpoints, key, namespace string
	retention                   time.Duration
}

func auditVerifyCommand(a *cli.App) *cobra.Command {
	var f auditFlags
	c := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Find records that were changed, removed or rewritten",
		Long: `Verifies the chain of the running daemon, or of an export in FILE, and compares
it with signed checkpoints. The exit code is 1 when the command finds a problem.

A record that was changed, or removed from the middle, breaks the chain. To find
that the newest records were removed, or that the whole chain was rewritten, you
need checkpoints that are stored elsewhere. With --key the command also verifies
that the daemon signed them: see "toold audit key".`,
		Example: "  toold audit verify --checkpoints /mnt/elsewhere/checkpoints.jsonl --key 5f0c…\n  toold audit verify audit.jsonl --checkpoints checkpoints.jsonl",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			signed, bad, err := f.read()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return verifyFile(a, args[0], &f, signed, bad)
			}
			return withAdmin(a, func(ctx context.Context, c tooldv1.AdminServiceClient) error {
				info, err := c.GetInfo(ctx, &tooldv1.GetInfoRequest{})
				if err != nil {
					return err
				}
				page, err := c.ReadAudit(ctx, &tooldv1.ReadAuditRequest{PageSize: 1})
				if err != nil {
					return err
				}
				report, err := audit.Verify(info.GetNamespace(), auditOf(ctx, c, info.GetNamespace()), signed, page.GetKeptSince().AsTime())
				if err != nil {
					return err
				}
				return printVerified(a, report, bad, f.checkpoints != "")
			})(c, nil)
		},
	}
	c.Flags().StringVar(&f.checkpoints, "checkpoints", "", "file of signed checkpoints; use a copy that is stored on another machine")
	c.Flags().StringVar(&f.key, "key", "", "public key in hex; the checkpoints must be signed with it (default: any key)")
	c.Flags().StringVar(&f.namespace, "namespace", "", "namespace of an export in FILE; if empty, the namespace of its first record")
	c.Flags().DurationVar(&f.retention, "retention", 400*24*time.Hour, "time for which the daemon of an export in FILE keeps records")
	a.OutputFlag(c, cli.FormTable, cli.FormJSON)
	return c
}

func (f *auditFlags) read() ([]audit.Checkpoint, []audit.Finding, error) {
	if f.checkpoints == "" {
		if f.key != "" {
			return nil, nil, cli.Usagef("--key needs --checkpoints")
		}
		return nil, nil, nil
	}
	var key ed25519.PublicKey
	if f.key != "" {
		b, err := hex.DecodeString(f.key)
		if err != nil || len(b) != ed25519.PublicKeySize {
			return nil, nil, cli.Usagef("--key: want %d bytes in hex, as \"toold audit key\" prints them", ed25519.PublicKeySize)
		}
		key = b
	}
	file, err := os.Open(f.checkpoints)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	good, bad, err := audit.ReadCheckpoints(file, key)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.checkpoints, err)
	}
	return good, bad, nil
}

func verifyFile(a *cli.App, name string, f *auditFlags, signed []audit.Checkpoint, bad []audit.Finding) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	namespace := f.namespace
	for l, err := range exported(file) {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		namespace = cmp.Or(namespace, l.Namespace)
		break
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	report, err := audit.Verify(namespace, exported(file), signed, time.Now().Add(-f.retention))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return printVerified(a, report, bad, f.checkpoints != "")
}

// exported reads the output of export.
func exported(r io.Reader) iter.Seq2[call.ChainRecord, error] {
	return func(yield func(call.ChainRecord, error) bool) {
		d := json.NewDecoder(r)
		for n := 1; ; n++ {
			var l call.ChainRecord
			err := d.Decode(&l)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				err = fmt.Errorf("record %d: %w", n, err)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// printVerified prints a report. It returns an error when there are findings.
func printVerified(a *cli.App, r audit.Report, bad []audit.Finding, compared bool) error {
	r.Findings = append(bad, r.Findings...)
	if a.Output == cli.FormJSON {
		if err := json.NewEncoder(a.Out).Encode(r); err != nil {
			return err
		}
	} else {
		var b strings.Builder
		fmt.Fprintf(&b, "%d records of %s", r.Records, r.Namespace)
		if r.Records > 0 {
			fmt.Fprintf(&b, ", from %s to %s", r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
		}
		fmt.Fprintf(&b, "; %d checkpoints\n", r.Checkpoints)
		if r.Trimmed {
			b.WriteString("older records were removed by retention\n")
		}
		switch {
		case !compared:
			b.WriteString("without --checkpoints, a chain that was cut at its end or completely rewritten is not detected\n")
		case r.Checkpoints == 0:
			fmt.Fprintf(&b, "the file has no checkpoint of %s: a chain that was cut at its end or completely rewritten is not detected\n", r.Namespace)
		}
		for _, f := range r.Findings {
			fmt.Fprintf(&b, "%-12s %s\n", f.Kind, f.Text)
		}
		if _, err := io.WriteString(a.Out, b.String()); err != nil {
			return err
		}
	}
	if n := len(r.Findings); n > 0 {
		return fmt.Errorf("the chain was changed after it was recorded: %d findings", n)
	}
	return nil
}

func auditKeyCommand(a *cli.App) *cobra.Command {
	data := "data"
	c := &cobra.Command{
		Use:     "key",
		Short:   "Print the public key that signs checkpoints",
		Example: "  toold audit key --data data",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			key, err := readAuditKey(filepath.Join(data, "audit", "key"))
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%w; a daemon with audit.enabled creates the key at its first start", err)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Out, hex.EncodeToString(key.Public().(ed25519.PublicKey)))
			return err
		},
	}
	c.Flags().StringVar(&data, "data", data, "directory of the store")
	return c
}
