package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"strconv"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
)

// An Operation is a request that the audit records in addition to calls. Such a request changes the daemon or its records. DescribeCall is
// recorded too, although it changes nothing.
type Operation struct {
	Method string // short name, such as SetPermissionMode
	By     tool.Principal
	// Of has the ids, names and settings of the request, by their names in the API. It contains no text that people typed, no arguments and
	// no values. Arguments are represented by their SHA-256 hash.
	Of map[string]string
	// Refused is the reason of a refusal. Each operation is reported before it runs, with an empty Refused. If it fails, it is reported
	// again.
	Refused string
}

// operation reports a request that is about to run (err is nil), or that failed with err.
func (s *Service) operation(ctx context.Context, method string, id *access.Identity, req any, err error) {
	op := Operation{Method: path.Base(method), By: id.Principal, Of: aboutOf(req)}
	if err != nil {
		var refusal *call.Refusal
		if op.Refused = status.Code(err).String(); errors.As(err, &refusal) {
			op.Refused = refusal.Reason
		}
	}
	s.cfg.Operation(ctx, op)
}

// about has the values of [Operation.Of], by name.
type about map[string]string

// maxName bounds the bytes of a value, because the client chooses most values.
const maxName = 256

func (a about) set(name, value string) about {
	if value != "" {
		a[name] = strings.ToValidUTF8(value[:min(len(value), maxName)], "")
	}
	return a
}

func (a about) run(run, thread string) about { return a.set("run_id", run).set("thread_id", thread) }

// calls adds the first of the ids, and their number.
func (a about) calls(ids []string) about {
	if len(ids) == 0 {
		return a
	}
	return a.set("call_id", ids[0]).set("calls", strconv.Itoa(len(ids)))
}

func aboutOf(req any) about {
	a := about{}
	switch r := req.(type) {
	case *tooldv1.DescribeCallRequest:
		spec := r.GetSpec()
		a.run(spec.GetRun().GetRunId(), spec.GetRun().GetThreadId()).set("tool", spec.GetTool()).set("suspension_id", r.GetSuspensionId())
		if text := spec.GetArguments() + r.GetArguments(); text != "" { // A request never has arguments in both places.
			sum := sha256.Sum256([]byte(text))
			a.set("arguments_sha256", hex.EncodeToString(sum[:]))
		}
	case *tooldv1.ClaimSuspensionRequest:
		a.set("suspension_id", r.GetSuspensionId()).set("release", isTrue(r.GetRelease())).set("take_over", isTrue(r.GetTakeOver())).set("hand_over_to", r.GetHandOverTo())
	case *tooldv1.SetPermissionModeRequest:
		a.run(r.GetRunId(), r.GetThreadId()).set("mode", r.GetMode())
	case *tooldv1.EndRunRequest:
		a.run(r.GetRunId(), "")
	case *tooldv1.RevokeRuleRequest:
		a.set("rule_id", r.GetRuleId())
	case *tooldv1.RetryDeadLetterRequest:
		a.set("action_id", r.GetActionId())
	case *tooldv1.DrainRequest:
		if r.GetPeriod() != nil {
			a.set("period", r.GetPeriod().AsDuration().String())
		}
	case *tooldv1.SetLogLevelRequest:
		a.set("level", r.GetLevel().String())
	case *tooldv1.AcceptToolRequest:
		a.set("tool", r.GetTool()).set("digest", r.GetDigest())
	case *tooldv1.RefuseToolRequest:
		a.set("tool", r.GetTool()).set("digest", r.GetDigest())
	case *tooldv1.ReleaseCallsRequest:
		a.run(r.GetRunId(), r.GetThreadId()).calls(r.GetCallIds()).set("all", isTrue(r.GetAll())).set("end", isTrue(r.GetEnd()))
	case *tooldv1.CreateTokenRequest:
		a.set("roles", strings.Join(rolesOf(r.GetRoles()), ",")).set("read_only", isTrue(r.GetReadOnly())).set("subject", r.GetSubject()).set("namespace", r.GetNamespace())
	case *tooldv1.RevokeTokenRequest:
		a.set("token_id", r.GetTokenId())
	case *tooldv1.BackupRequest:
		a.set("directory", r.GetDirectory())
	case *tooldv1.PurgeRequest:
		a.run(r.GetRunId(), r.GetThreadId()).calls(r.GetCallIds())
	}
	return a
}

func isTrue(b bool) string {
	if b {
		return "true"
	}
	return ""
}
