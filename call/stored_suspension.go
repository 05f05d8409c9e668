package call

import (
	"slices"

	"github.com/toold-dev/toold/tool"
)

func roundFields(w *wire, r *Round) {
	part(w, 1, &r.Suspension, suspensionFields)
	pointer(w, 2, &r.Decision, decisionFields)
	flag(w, 3, &r.Expired)
	flag(w, 4, &r.Closed)
	list(w, 5, &r.Votes, voteFields)
	text(w, 6, &r.Proposed)
	pointer(w, 64, &r.Claim, claimFields)
	integer(w, 65, &r.Claims)
}

func claimFields(w *wire, c *Claim) {
	part(w, 1, &c.By, principalFields)
	integer(w, 2, &c.Since)
	integer(w, 3, &c.Until)
	pointer(w, 64, &c.HandedBy, principalFields)
}

func claimChangedFields(w *wire, c *ClaimChanged) {
	text(w, 1, &c.SuspensionID)
	pointer(w, 2, &c.Claim, claimFields)
}

func suspensionFields(w *wire, s *Suspension) {
	text(w, 1, &s.ID)
	integer(w, 2, &s.Round)
	text(w, 3, &s.Origin)
	text(w, 4, &s.Action)
	text(w, 5, &s.Message)
	blob(w, 6, &s.Parameters)
	blob(w, 7, &s.ResponseSchema)
	text(w, 8, &s.ResumeMode)
	pointer(w, 9, &s.Approvers, approversFields)
	options := writeOptions(w, s.RememberOptions)
	texts(w, 10, &options.names)
	text(w, 11, &s.DefaultResult)
	part(w, 12, &s.Pending, pendingFields)
	text(w, 13, &s.Digest)
	part(w, 14, &s.Description, descriptionFields)
	integer(w, 15, &s.Created)
	integer(w, 16, &s.ExpiresAt)
	texts(w, 17, &options.titles)
	options.read(w, &s.RememberOptions)
	text(w, 64, &s.Policy)
	text(w, 65, &s.Rule)
	text(w, 66, &s.Reason)
}

// rememberOptions are stored as two lists, names and titles. Titles is left out when all are empty, because it was added later.
type rememberOptions struct{ names, titles []string }

func writeOptions(w *wire, options []tool.RememberOption) (r rememberOptions) {
	titled := slices.ContainsFunc(options, func(o tool.RememberOption) bool { return o.Title != "" })
	for i := 0; !w.reading() && i < len(options); i++ {
		r.names = append(r.names, options[i].Option)
		if titled {
			r.titles = append(r.titles, options[i].Title)
		}
	}
	return r
}

func (r *rememberOptions) read(w *wire, options *[]tool.RememberOption) {
	if !w.reading() {
		return
	}
	if len(r.titles) > len(r.names) {
		w.fail("titles without options")
		return
	}
	for i, name := range r.names {
		o := tool.RememberOption{Option: name}
		if i < len(r.titles) {
			o.Title = r.titles[i]
		}
		*options = append(*options, o)
	}
}

func approversFields(w *wire, a *tool.Approvers) {
	texts(w, 1, &a.Roles)
	flag(w, 2, &a.DistinctFromCaller)
	integer(w, 3, &a.Count)
	flag(w, 4, &a.ResultInstead)
	texts(w, 5, &a.Groups)
}

func pendingFields(w *wire, p *Pending) {
	text(w, 1, &p.ID)
	text(w, 2, &p.Name)
	text(w, 3, &p.Arguments)
}

func decisionFields(w *wire, d *tool.Decision) {
	text(w, 1, &d.ID)
	text(w, 2, &d.Action)
	text(w, 3, &d.Result)
	text(w, 4, &d.Arguments)
	text(w, 5, &d.Reason)
	text(w, 6, &d.ExpectedDigest)
	part(w, 7, &d.DecidedBy, principalFields)
	instant(w, 8, &d.Time)
	text(w, 9, &d.AppliesTo)
	list(w, 10, &d.Votes, voteFields)
	pointer(w, 11, &d.Remember, rememberFields)
	pointer(w, 12, &d.ResultInstead, insteadFields)
}

func insteadFields(w *wire, r *tool.ResultInstead) {
	text(w, 1, &r.Data)
	text(w, 2, &r.Message)
	flag(w, 3, &r.Error)
}

func rememberFields(w *wire, r *tool.Remember) {
	text(w, 1, &r.Option)
	text(w, 2, &r.Scope)
	instant(w, 3, &r.Until)
}

func voteFields(w *wire, v *tool.Vote) {
	text(w, 1, &v.DecisionID)
	text(w, 2, &v.Action)
	part(w, 3, &v.Voter, principalFields)
	instant(w, 4, &v.Time)
	flag(w, 5, &v.Edited)
	text(w, 6, &v.Digest)
}

func descriptionFields(w *wire, d *tool.Description) {
	text(w, 1, &d.Kind)
	text(w, 2, &d.Title)
	list(w, 3, &d.Locations, locationFields)
	list(w, 4, &d.Preview, contentFields)
	texts(w, 5, &d.Notes)
	text(w, 6, &d.Basis)
	flag(w, 7, &d.Degraded)
	list(w, 8, &d.Command, commandPartFields)
}

func commandPartFields(w *wire, p *tool.CommandPart) {
	text(w, 1, &p.Text)
	text(w, 2, &p.Safety)
	text(w, 3, &p.Reason)
	flag(w, 4, &p.Unknown)
}

func locationFields(w *wire, l *tool.Location) {
	text(w, 1, &l.Path)
	integer(w, 2, &l.Line)
}
