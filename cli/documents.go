package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// scopeFlags holds the flags that say which scope a document belongs to.
type scopeFlags struct {
	run, thread string
	namespace   bool
}

func (p *scopeFlags) addTo(c *cobra.Command) {
	c.Flags().StringVar(&p.run, "run", "", "documents of this run")
	c.Flags().StringVar(&p.thread, "thread", "", "documents of this thread")
	c.Flags().BoolVar(&p.namespace, "namespace", false, "documents of the namespace")
}

func (p *scopeFlags) scope() (tooldv1.DocumentScope, string, error) {
	switch {
	case p.run != "" && p.thread == "" && !p.namespace:
		return tooldv1.DocumentScope_DOCUMENT_SCOPE_RUN, p.run, nil
	case p.run == "" && p.thread != "" && !p.namespace:
		return tooldv1.DocumentScope_DOCUMENT_SCOPE_THREAD, p.thread, nil
	case p.run == "" && p.thread == "" && p.namespace:
		return tooldv1.DocumentScope_DOCUMENT_SCOPE_NAMESPACE, "", nil
	}
	return 0, "", Usagef("one of --run, --thread and --namespace is required")
}

func documentsCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "documents", Short: "Read and write the documents of hooks and tools", Args: NoArgs,
		Long: `Documents are JSON values that hooks and tools store for a run, a thread or the
namespace. An example is the todo list of a conversation. Each document has a
revision. "put" and "delete" compare it, so they do not overwrite a change that
somebody else made.

"dead-letters" lists the actions of calls that failed in all attempts.`,
		Example: "  toold documents list --thread t-17\n  toold documents get todo --thread t-17 | jq .todos",
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(documentsListCommand(a), documentsGetCommand(a), documentsPutCommand(a), documentsDeleteCommand(a), deadLettersCommand(a))
	return c
}

func documentsListCommand(a *App) *cobra.Command {
	var of scopeFlags
	request := &tooldv1.ListDocumentsRequest{}
	c := &cobra.Command{
		Use: "list", Short: "List documents, sorted by key", Args: NoArgs,
		Example: "  toold documents list --thread t-17\n  toold documents list --namespace --prefix cache. -o jsonl | jq -r .key",
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) (err error) {
			if request.Scope, request.ScopeId, err = of.scope(); err != nil {
				return err
			}
			var all []*tooldv1.Document
			for {
				page, err := c.docs.ListDocuments(ctx, request)
				if err != nil {
					return err
				}
				all = append(all, page.GetDocuments()...)
				if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
					return printList(a, all, a.OutView().Documents(all))
				}
			}
		}),
	}
	of.addTo(c)
	c.Flags().StringVar(&request.KeyPrefix, "prefix", "", "only keys that begin with this text")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

func documentsGetCommand(a *App) *cobra.Command {
	var of scopeFlags
	c := &cobra.Command{
		Use: "get KEY", Short: "Print the value of a document", Args: ExactArgs("a KEY"),
		Long: `Prints the stored JSON text of a document. With -o json the output also contains
the revision.`,
		Example: "  toold documents get todo --thread t-17\n  toold documents get todo --thread t-17 -o json | jq -r .revision",
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			scope, id, err := of.scope()
			if err != nil {
				return err
			}
			got, err := c.docs.GetDocument(ctx, &tooldv1.GetDocumentRequest{Scope: scope, ScopeId: id, Key: args[0]})
			if err != nil {
				return err
			}
			if a.Output == FormTable && !a.OutTerminal { // the reader is a program: print the value byte for byte
				_, err := io.WriteString(a.Out, got.GetDocument().GetValue()+"\n")
				return err
			}
			return a.Print(got.GetDocument(), a.OutView().Document(got.GetDocument()))
		}),
	}
	of.addTo(c)
	a.OutputFlag(c, FormTable, FormJSON)
	return c
}

// expectFlag adds the flag for the expected revision of a document. -1 accepts any revision.
func expectFlag(c *cobra.Command) *int64 {
	return c.Flags().Int64("expect", -1, "the revision that the document must have; 0 means that it must not exist, -1 means any revision")
}

func expected(revision int64) *int64 {
	if revision < 0 {
		return nil
	}
	return &revision
}

func documentsPutCommand(a *App) *cobra.Command {
	var of scopeFlags
	var expect *int64
	c := &cobra.Command{
		Use: "put KEY JSON | -", Short: "Create a document, or replace its value", Args: ExactArgs("a KEY", "JSON, or - for standard input"),
		Long: `Creates a document, or replaces its value. With --expect the command changes
nothing when the document has another revision. Read the document again then.
Calls that have already read documents do not see the change.`,
		Example: "  toold documents put limits '{\"daily\": 20}' --namespace\n  toold documents put todo - --thread t-17 --expect 3 < todo.json",
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			scope, id, err := of.scope()
			if err != nil {
				return err
			}
			value := args[1]
			if value == "-" {
				if value, err = a.ReadInput(); err != nil {
					return err
				}
			}
			got, err := c.docs.PutDocument(ctx, &tooldv1.PutDocumentRequest{Scope: scope, ScopeId: id, Key: args[0], Value: value, ExpectedRevision: expected(*expect)})
			if err != nil {
				return err
			}
			return a.Print(got, "revision "+strconv.FormatInt(got.GetRevision(), 10)+"\n")
		}),
	}
	of.addTo(c)
	expect = expectFlag(c)
	a.OutputFlag(c, FormTable, FormJSON)
	return c
}

func documentsDeleteCommand(a *App) *cobra.Command {
	var of scopeFlags
	var expect *int64
	c := &cobra.Command{
		Use: "delete KEY", Short: "Remove a document", Args: ExactArgs("a KEY"),
		Example: "  toold documents delete todo --thread t-17\n  toold documents delete limits --namespace --expect 4",
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			scope, id, err := of.scope()
			if err != nil {
				return err
			}
			got, err := c.docs.DeleteDocument(ctx, &tooldv1.DeleteDocumentRequest{Scope: scope, ScopeId: id, Key: args[0], ExpectedRevision: expected(*expect)})
			if err != nil {
				return err
			}
			text := "deleted\n"
			if !got.GetDeleted() {
				text = "there was no such document\n"
			}
			return a.Print(got, text)
		}),
	}
	of.addTo(c)
	expect = expectFlag(c)
	a.OutputFlag(c, FormTable, FormJSON)
	return c
}

func deadLettersCommand(a *App) *cobra.Command {
	list := func(ctx context.Context, c *client, _ []string) error {
		all, err := deadLetters(ctx, c)
		if err != nil {
			return err
		}
		if len(all) == 0 && a.Output == FormTable {
			fmt.Fprintln(a.Err, "no dead letters")
			return nil
		}
		return printList(a, all, a.OutView().DeadLetters(all))
	}
	c := &cobra.Command{
		Use: "dead-letters", Short: "List or retry actions that failed in all attempts", Args: NoArgs,
		Long: `Lists the actions of calls that failed in all attempts, oldest first, with the
error of the last attempt. The daemon stores them as long as their calls.
"retry" makes the daemon try them again.`,
		Example: "  toold documents dead-letters\n  toold documents dead-letters retry a-7KQ3",
		RunE:    a.withClient(list),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	again := &cobra.Command{
		Use: "retry ACTION …", Short: "Make the daemon try failed actions again", Args: AtLeast("an ACTION"),
		Example: "  toold documents dead-letters retry a-7KQ3\n  toold documents dead-letters -o jsonl | jq -r .action_id |\n    xargs toold documents dead-letters retry",
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			var failed error
			for _, id := range args {
				if _, err := c.admin.RetryDeadLetter(ctx, &tooldv1.RetryDeadLetterRequest{ActionId: id}); err != nil {
					failed = errors.Join(failed, err)
				}
			}
			return failed
		}),
	}
	listing := &cobra.Command{
		Use: "list", Short: "List actions that failed in all attempts", Args: NoArgs,
		Example: "  toold documents dead-letters list -o jsonl", RunE: a.withClient(list),
	}
	a.OutputFlag(listing, FormTable, FormJSON, FormJSONL)
	c.AddCommand(listing, again)
	return c
}

func deadLetters(ctx context.Context, c *client) (all []*tooldv1.DeadLetter, err error) {
	request := &tooldv1.ListDeadLettersRequest{}
	for {
		page, err := c.admin.ListDeadLetters(ctx, request)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetDeadLetters()...)
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return all, nil
		}
	}
}
