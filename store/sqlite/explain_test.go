package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/rows"
)

// TestPlans checks the index that each statement uses. It is inside the package because the statements are unexported.
func TestPlans(t *testing.T) {
	conn, err := openConn(filepath.Join(t.TempDir(), "journal.db"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := migrate(conn, schema); err != nil {
		t.Fatal(err)
	}
	list := func(q call.Query) string {
		text, _, _ := plan(q)
		return text
	}
	const sorts, merges = "TEMP B-TREE", "MERGE"
	const members = "PRIMARY KEY (namespace=? AND kind=? AND name=? AND block<?)"
	tests := []struct {
		name, text, index string
		may               string // other steps that the plan may contain
	}{
		{"state", selectState, "calls_id", ""},
		{"call", selectCall, "calls_id", ""},
		{"call in a pack", selectPacked, "SEARCH packed USING PRIMARY KEY (namespace=? AND call_id=?)", ""},
		{"pack of a call", selectPacked, "SEARCH packs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", ""},
		{"old, in packs", selectPacks + "TRUE ORDER BY position", "SCAN packs", ""}, // The scan runs in order and stops at the first pack that is not old.
		{"feed, packs", scanPacks, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", ""},
		{"ids in packs", selectPackedIDs, "PRIMARY KEY ((namespace,call_id)>(?,?))", ""},
		{"ids", selectCallIDs, "COVERING INDEX calls_id ((namespace,call_id)>(?,?))", ""},
		{"runs and threads", selectMembers, "PRIMARY KEY ((namespace,kind,name)>(?,?,?))", ""},
		{"tombstones", selectTombstoneIDs, "PRIMARY KEY ((namespace,call_id)>(?,?))", ""},
		{"unfinished", selectUnfinished, "calls_status", sorts}, // Sorting is no problem: there are few such calls, and the statement runs only at start.
		{"events", selectEvents, "events_call", ""},
		{"by suspension", rows.SelectBySuspension, "PRIMARY KEY (namespace=? AND id=?)", ""},
		{"due", selectDue, "suspensions_expires", ""},
		{"namespaces that have due ones", selectDueNamespaces, "suspensions_expires", sorts}, // The statement sorts only the names of the namespaces.
		{"expiring", selectExpiring, "suspensions_expires", sorts},                           // The statement sorts only calls that expire at the same time.
		{"actions of a namespace", selectActionsOf, "suspensions_open", ""},
		{"counts of a namespace", selectCountsOf, "COVERING INDEX calls_status", ""},
		{"next expiry", selectNextExpiry, "suspensions_expires", ""},
		{"decision", rows.SelectDecision, "PRIMARY KEY (namespace=? AND id=?)", ""},
		{"documents", selectDocuments, "sqlite_autoindex_documents_1", ""},
		{"usage", selectUsage, "sqlite_autoindex_documents_1", ""},
		{"due actions", dueActions, "actions_due", ""},
		{"actions at an end", endActions, "actions_ends", ""},
		{"dead letters", deadActions, "actions_dead", ""}, {"how many dead letters", countDead, "actions_dead", ""},
		{"an action", oneAction, "actions_id", ""},
		{"run counts", selectRunCounts, "PRIMARY KEY (namespace=? AND kind=? AND name=?)", sorts}, // The statement sorts only the calls of one run.
		{"counts", selectCounts, "COVERING INDEX calls_status", ""},
		{"records", selectRecords, "records_kind", ""},
		{"policies", rows.SelectPolicies, "PRIMARY KEY ((namespace,kind,key)>(?,?,?))", ""},
		{"old", selectOld, "calls_ended", ""},
		{"old, its thread", selectOld, "calls_waiting (namespace=? AND thread_id=?)", ""},
		{"old, by position", selectOldAtOnce, "INTEGER PRIMARY KEY (rowid>?)", ""},
		{"old members", deleteMembers, "members_block (block=?)", ""},
		{"old documents", deleteOldDocuments, "PRIMARY KEY (namespace=? AND kind=? AND name=?)", ""},
		{"documents of no run", deleteRunDocuments, "PRIMARY KEY (namespace=? AND kind=? AND name=?)", ""},
		{"documents of no thread", deleteThreadDocuments, "PRIMARY KEY (namespace=? AND kind=? AND name=?)", ""},
		{"runs of no calls", deleteRuns, "PRIMARY KEY (namespace=? AND kind=? AND name=?)", ""},
		{"feed, events", scanEvents, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", ""},
		{"feed, calls", scanCalls, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", ""},
		{"feed of a run", seekIn("run"), "PRIMARY KEY (namespace=? AND kind=? AND name=?)", sorts + merges}, // The statement sorts only the positions of one run.
		{"feed of a batch", seekInBatch, "calls_batch (namespace=? AND batch_id=?)", sorts + merges},
		{"open batches", selectOpenBatches, "batches_open", ""},
		{"feed of a thread", seekIn("thread"), "PRIMARY KEY (namespace=? AND kind=? AND name=?)", sorts + merges},
		{"inbox", list(call.Query{Namespace: "n", Action: "a", OldestFirst: true}), "suspensions_open (namespace=? AND action=? AND call>?)", ""},
		{"waiting", list(call.Query{Namespace: "n", Statuses: []call.Status{call.Suspended}, OldestFirst: true}), "calls_status (status=? AND namespace=? AND rowid>?)", ""},
		{"waiting, newest", list(call.Query{Namespace: "n", Statuses: []call.Status{call.Suspended}}), "calls_status (status=? AND namespace=? AND rowid<?)", ""},
		{"two statuses", list(call.Query{Namespace: "n", Statuses: []call.Status{call.New, call.Failed}}), "calls_status (status=? AND namespace=? AND rowid<?)", merges},
		{"succeeded", list(call.Query{Namespace: "n", Statuses: []call.Status{call.Succeeded}}), members, ""},
		{"namespace", list(call.Query{Namespace: "n"}), members, ""},
		{"namespace, oldest", list(call.Query{Namespace: "n", OldestFirst: true}), "PRIMARY KEY (namespace=? AND kind=? AND name=? AND block>?)", ""},
		{"caller", list(call.Query{Namespace: "n", Caller: "c"}), members, ""},
		{"run", list(call.Query{Namespace: "n", Run: "r"}), members, ""},
		{"thread", list(call.Query{Namespace: "n", Thread: "r"}), members, ""},
		{"run, what it asks", list(call.Query{Namespace: "n", Run: "r", Action: "a"}), "suspensions_open (namespace=? AND action=? AND call<?)", ""},
		{"batch, what it asks", list(call.Query{Namespace: "n", Batch: "r", Action: "a"}), "suspensions_open (namespace=? AND action=? AND call<?)", ""},
		{"thread, suspended", list(call.Query{Namespace: "n", Thread: "r", Statuses: []call.Status{call.Suspended}}), "calls_waiting (namespace=? AND thread_id=? AND rowid<?)", ""},
		{"run, failed", list(call.Query{Namespace: "n", Run: "r", Statuses: []call.Status{call.Failed}}), members, ""},
		{"parent", list(call.Query{Namespace: "n", ParentCall: "r"}), "calls_parent (namespace=? AND parent_call=? AND rowid<?)", ""},
		{"children", selectChildren, "calls_parent (namespace=? AND parent_call=?)", ""},
		{"batch", list(call.Query{Namespace: "n", Batch: "r"}), "calls_batch (namespace=? AND batch_id=? AND rowid<?)", ""},
		{"everything", list(call.Query{}), "INTEGER PRIMARY KEY (rowid<?)", merges},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := explain(t, conn, tt.text)
			if !strings.Contains(got, tt.index) {
				t.Errorf("does not use %s:\n%s", tt.index, got)
			}
			for _, bad := range []string{"SCAN calls", "SCAN events", "SCAN suspensions", "SCAN m\n", "SCAN members", "SCAN c\n", "SCAN e\n", sorts, merges} {
				if !strings.Contains(tt.may, bad) && strings.Contains(got, bad) {
					t.Errorf("%s:\n%s", bad, got)
				}
			}
		})
	}
}

func explain(t *testing.T, conn *sqlite.Conn, text string) string {
	t.Helper()
	var plan strings.Builder
	err := query(conn, "EXPLAIN QUERY PLAN "+text, func(st *sqlite.Stmt) error {
		plan.WriteString(st.ColumnText(3) + "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
