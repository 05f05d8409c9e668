package call_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

var aPath = regexp.MustCompile(`(Call|Decision)\.[A-Za-z0-9_.\[\]]+`)

// texts returns the values of all text fields in a record. The test has set each text to the path of its own field.
func texts(t *testing.T, v any) []string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	found := aPath.FindAllString(string(b), -1)
	for i, path := range found {
		found[i] = strings.NewReplacer("[0]", "", "[1]", "").Replace(path)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// TestPurgedKeepsNamesOnly lists every text that stays after a purge: ids, digests, words of a fixed list, names of hooks and roles, and
// subjects of people.
func TestPurgedKeepsNamesOnly(t *testing.T) {
	c := filled[call.Call](everyField())
	c.Purge = nil
	got := c.Purged(call.Purge{})
	want := strings.Fields(`
		Call.Assessment.Mutability Call.Assessment.Safety Call.Assessment.Tier
		Call.BatchID Call.Caller.Groups Call.Caller.Method Call.Caller.Namespace Call.Caller.Roles Call.Caller.Subject
		Call.Cancel.By.Groups Call.Cancel.By.Method Call.Cancel.By.Namespace Call.Cancel.By.Roles Call.Cancel.By.Subject Call.Cancel.Cause
		Call.Class Call.Executed Call.ID Call.Isolation.Facts.Name Call.Isolation.Network Call.Isolation.Required
		Call.Namespace Call.OnBehalfOf Call.RequestDigest Call.Result.Error.Code Call.Result.Status Call.Result.ToolName Call.RetryOf
		Call.Rounds.Decision.Action Call.Rounds.Decision.AppliesTo Call.Rounds.Decision.DecidedBy.Groups Call.Rounds.Decision.DecidedBy.Method Call.Rounds.Decision.DecidedBy.Namespace
		Call.Rounds.Decision.DecidedBy.Roles Call.Rounds.Decision.DecidedBy.Subject Call.Rounds.Decision.ID
		Call.Rounds.Decision.Votes.Action Call.Rounds.Decision.Votes.DecisionID Call.Rounds.Decision.Votes.Digest
		Call.Rounds.Decision.Votes.Voter.Groups Call.Rounds.Decision.Votes.Voter.Method Call.Rounds.Decision.Votes.Voter.Namespace Call.Rounds.Decision.Votes.Voter.Roles Call.Rounds.Decision.Votes.Voter.Subject
		Call.Rounds.Suspension.Action Call.Rounds.Suspension.Approvers.Groups Call.Rounds.Suspension.Approvers.Roles Call.Rounds.Suspension.Digest Call.Rounds.Suspension.ID
		Call.Rounds.Suspension.Origin Call.Rounds.Suspension.ResumeMode
		Call.Rounds.Votes.Action Call.Rounds.Votes.DecisionID Call.Rounds.Votes.Digest
		Call.Rounds.Votes.Voter.Groups Call.Rounds.Votes.Voter.Method Call.Rounds.Votes.Voter.Namespace Call.Rounds.Votes.Voter.Roles Call.Rounds.Votes.Voter.Subject
		Call.Run.ID Call.Run.ParentCall Call.Run.ParentRun Call.Run.ParentThread Call.Run.Thread
		Call.Status Call.Tool Call.ToolDigest Call.Verdicts.Gate Call.Verdicts.Kind Call.Verdicts.Rule`)
	slices.Sort(want)
	if diff := cmp.Diff(want, texts(t, got)); diff != "" {
		t.Errorf("texts that stay (-want +got):\n%s", diff)
	}
	if !got.Created.Equal(c.Created) || !got.Ended.Equal(c.Ended) || got.LastSequence != c.LastSequence || got.Revision != c.Revision || len(got.Attempts) != 2 {
		t.Errorf("times and numbers are %+v", got)
	}
	checkCall(t, got)
	if again := got.Purged(*got.Purge); cmp.Diff(got, again) != "" {
		t.Errorf("a second purge changes it:\n%s", cmp.Diff(got, again))
	}
}

func TestPurgedDecision(t *testing.T) {
	d := call.PurgedDecision(filled[tool.Decision](everyField()))
	want := strings.Fields(`Decision.Action Decision.AppliesTo Decision.DecidedBy.Groups Decision.DecidedBy.Method Decision.DecidedBy.Namespace Decision.DecidedBy.Roles
		Decision.DecidedBy.Subject Decision.ID Decision.Votes.Action Decision.Votes.DecisionID Decision.Votes.Digest
		Decision.Votes.Voter.Groups Decision.Votes.Voter.Method Decision.Votes.Voter.Namespace Decision.Votes.Voter.Roles Decision.Votes.Voter.Subject`)
	if diff := cmp.Diff(want, texts(t, d)); diff != "" || d.Time.IsZero() {
		t.Errorf("texts that stay (-want +got):\n%s", diff)
	}
}
