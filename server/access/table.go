package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Roles is a set of roles.
type Roles uint8

// The roles of the API, in the order of roleNames. Each role applies within one namespace, except administrator, which applies to the whole
// daemon. Configuration and records call this role admin.
const (
	Caller Roles = 1 << iota
	Delegate
	Approver
	Operator
	Worker
	Viewer
	Administrator

	anyRole = Caller | Delegate | Approver | Operator | Worker | Viewer | Administrator
)

var roleNames = []string{"caller", "delegate", "approver", "operator", "worker", "viewer", "admin"}

// rolesOf returns the set of roles with these names.
func rolesOf(names []string) (Roles, error) {
	var set Roles
	for _, name := range names {
		i := slices.Index(roleNames, name)
		if i < 0 {
			return 0, fmt.Errorf("role %q: want one of %s", name, strings.Join(roleNames, ", "))
		}
		set |= 1 << i
	}
	return set, nil
}

// Names returns the names of the roles, in the order of the table.
func (r Roles) Names() []string {
	var names []string
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// A Rule says which roles may call a method, and how a server treats it.
type Rule struct {
	Roles  Roles // one of these roles is enough to call the method
	Public bool  // the method needs no credential
	Reads  bool  // the method changes nothing, so that a read-only credential may call it
	// Limit bounds the time of a request. A client can set an earlier deadline. Zero means no limit: the handler may wait until its client
	// ends the request.
	Limit time.Duration
	// Unending is set for streams that end only with their client or with the server.
	Unending bool
	// IgnoresContext is set for handlers that may continue to wait for their client after their context has ended. The server does not wait
	// for these handlers.
	IgnoresContext bool
	// Brief is set for methods whose requests usually end within milliseconds. When a token without an expiry is revoked, the context of such a
	// request does not end, because that would make each request slower. Instead, the handler calls [Identity.Ended] before each message that
	// it sends.
	Brief bool
	// Audited is set for methods whose requests are reported to the audit. Only unary methods can be audited.
	Audited bool
}

// Permit refuses an identity without one of the roles that a method needs.
func (r *Rule) Permit(id *Identity, method string) error {
	if !id.Has(r.Roles) {
		return call.Refuse(call.PermissionDenied, "ROLE_REQUIRED", "%s needs one of the roles %v; %q has %v", method, r.Roles.Names(), id.Subject, id.Roles)
	}
	if id.readOnly && !r.Reads {
		return call.Refuse(call.PermissionDenied, "READ_ONLY", "%s changes something, and the credential of %q is read-only", method, id.Subject)
	}
	return nil
}

// quick is the time limit of methods that read memory or the journal.
const quick = 30 * time.Second

// long is the time limit of methods that read or change many calls.
const long = time.Hour

// MetricsMethod is the name under which the table has the route of the metrics over HTTP. It needs the role admin, because metrics concern
// all namespaces.
const MetricsMethod = "/http/metrics"

// DecisionsMethod is the name under which the table has the HTTP routes for answers of frontends. These routes exclude the roles caller and
// delegate: the token of an app must not answer for the person who uses the app, not even questions of the app's own calls.
const DecisionsMethod = "/http/decisions"

// Table returns the rule of every method. A server serves no method that is not in the table.
func Table() map[string]Rule {
	see, end, look := Caller|Delegate|Approver|Viewer|Operator, Caller|Delegate|Operator, Caller|Delegate|Viewer|Operator
	table := map[string]Rule{
		tooldv1.CallService_ExecuteTool_FullMethodName:  {Roles: Caller | Delegate, Brief: true},
		tooldv1.CallService_ExecuteBatch_FullMethodName: {Roles: Caller | Delegate},
		tooldv1.CallService_ExecuteTurn_FullMethodName:  {Roles: Caller | Delegate},
		tooldv1.CallService_GetTurn_FullMethodName:      {Roles: look, Reads: true},
		tooldv1.CallService_CallTool_FullMethodName:     {Roles: Caller | Delegate, Brief: true},
		tooldv1.CallService_ResumeTool_FullMethodName:   {Roles: Approver | Operator | Caller | Delegate},
		tooldv1.CallService_WatchCalls_FullMethodName:   {Roles: see, Reads: true},

		tooldv1.CallService_ClaimSuspension_FullMethodName: {Roles: Approver | Operator | Caller | Delegate, Limit: quick, Audited: true},
		tooldv1.CallService_WhoAmI_FullMethodName:          {Roles: anyRole, Reads: true, Limit: quick},

		tooldv1.CallService_WatchInbox_FullMethodName: {Roles: see, Reads: true, Unending: true},
		tooldv1.CallService_CountCalls_FullMethodName: {Roles: see, Reads: true, Limit: quick},

		tooldv1.CallService_Session_FullMethodName:      {Roles: see, Reads: true}, // The interceptors check the roles for each item of the session.
		tooldv1.CallService_GetCall_FullMethodName:      {Roles: see, Reads: true, Limit: quick},
		tooldv1.CallService_ListCalls_FullMethodName:    {Roles: see, Reads: true, Limit: quick},
		tooldv1.CallService_CancelCall_FullMethodName:   {Roles: end},
		tooldv1.CallService_CancelCalls_FullMethodName:  {Roles: end, Limit: quick},
		tooldv1.CallService_DescribeCall_FullMethodName: {Roles: Approver | Operator | Caller | Delegate, Reads: true, Limit: quick, Audited: true},
		tooldv1.CallService_ReadArtifact_FullMethodName: {Roles: see, Reads: true, Limit: quick},
		tooldv1.CallService_SendInput_FullMethodName:    {Roles: Caller | Delegate, Limit: quick},
		tooldv1.CallService_GetRun_FullMethodName:       {Roles: see, Reads: true, Limit: quick},
		tooldv1.CallService_ListRuns_FullMethodName:     {Roles: see, Reads: true, Limit: quick},
		tooldv1.CallService_ListThreads_FullMethodName:  {Roles: see, Reads: true, Limit: quick},
		tooldv1.CallService_GetThread_FullMethodName:    {Roles: see, Reads: true, Limit: quick},
		tooldv1.CallService_EndRun_FullMethodName:       {Roles: end, Limit: quick, Audited: true},

		tooldv1.CallService_ListRules_FullMethodName:         {Roles: see, Reads: true, Limit: quick},
		tooldv1.CallService_RevokeRule_FullMethodName:        {Roles: end | Approver, Limit: quick, Audited: true},
		tooldv1.CallService_GetPolicy_FullMethodName:         {Roles: Operator | Viewer, Reads: true, Limit: quick},
		tooldv1.CallService_TryRules_FullMethodName:          {Roles: Operator, Reads: true, Limit: quick},
		tooldv1.CallService_SetPermissionMode_FullMethodName: {Roles: end | Approver, Limit: quick, Audited: true},

		tooldv1.ToolService_ListTools_FullMethodName:      {Roles: see, Reads: true, Limit: quick},
		tooldv1.ToolService_GetTool_FullMethodName:        {Roles: see, Reads: true, Limit: quick},
		tooldv1.ToolService_ExportTools_FullMethodName:    {Roles: see, Reads: true, Limit: quick},
		tooldv1.ToolService_WatchTools_FullMethodName:     {Roles: see, Reads: true, Unending: true},
		tooldv1.ToolService_CountToolCalls_FullMethodName: {Roles: see, Reads: true, Limit: quick},

		tooldv1.DocumentService_GetDocument_FullMethodName:    {Roles: look, Reads: true, Limit: quick},
		tooldv1.DocumentService_ListDocuments_FullMethodName:  {Roles: look, Reads: true, Limit: quick},
		tooldv1.DocumentService_PutDocument_FullMethodName:    {Roles: end, Limit: quick},
		tooldv1.DocumentService_DeleteDocument_FullMethodName: {Roles: end, Limit: quick},

		tooldv1.WorkerService_Connect_FullMethodName: {Roles: Worker | Operator, Unending: true},

		MetricsMethod:   {Roles: Administrator, Reads: true, Limit: quick},
		DecisionsMethod: {Roles: Approver | Operator, Limit: quick},
	}
	maps.Copy(table, adminRules())
	maps.Copy(table, protocolRules())
	return table
}

// protocolRules returns the rules of health checks and reflection.
func protocolRules() map[string]Rule {
	return map[string]Rule{
		// Health probes have no credentials, and the response reveals nothing.
		grpc_health_v1.Health_Check_FullMethodName: {Public: true, Limit: quick},
		grpc_health_v1.Health_List_FullMethodName:  {Roles: anyRole, Reads: true, Limit: quick},
		grpc_health_v1.Health_Watch_FullMethodName: {Roles: anyRole, Reads: true, Unending: true},

		reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName:      {Roles: anyRole, Reads: true, Unending: true, IgnoresContext: true},
		reflectionv1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: {Roles: anyRole, Reads: true, Unending: true, IgnoresContext: true},
	}
}

// adminRules returns the rules of the methods of AdminService.
func adminRules() map[string]Rule {
	return map[string]Rule{
		tooldv1.AdminService_ListDeadLetters_FullMethodName: {Roles: Operator, Reads: true, Limit: quick},
		tooldv1.AdminService_RetryDeadLetter_FullMethodName: {Roles: Operator, Limit: quick, Audited: true},

		tooldv1.AdminService_GetInfo_FullMethodName:              {Roles: anyRole, Reads: true, Limit: quick},
		tooldv1.AdminService_Reload_FullMethodName:               {Roles: Administrator, Limit: quick, Audited: true},
		tooldv1.AdminService_Drain_FullMethodName:                {Roles: Administrator, Limit: quick, Audited: true},
		tooldv1.AdminService_SetLogLevel_FullMethodName:          {Roles: Administrator, Limit: quick, Audited: true},
		tooldv1.AdminService_ListQuarantinedTools_FullMethodName: {Roles: Operator | Administrator, Reads: true, Limit: quick},
		tooldv1.AdminService_AcceptTool_FullMethodName:           {Roles: Operator | Administrator, Limit: quick, Audited: true},
		tooldv1.AdminService_RefuseTool_FullMethodName:           {Roles: Operator | Administrator, Limit: quick, Audited: true},
		tooldv1.AdminService_ListDefinitions_FullMethodName:      {Roles: Approver | Viewer | Operator | Administrator, Reads: true, Limit: quick},
		tooldv1.AdminService_ListSources_FullMethodName:          {Roles: Operator | Viewer | Administrator, Reads: true, Limit: quick},
		tooldv1.AdminService_RetrySource_FullMethodName:          {Roles: Operator | Administrator, Limit: quick, Audited: true},
		tooldv1.AdminService_ListWorkers_FullMethodName:          {Roles: Operator | Viewer | Administrator, Reads: true, Limit: quick},
		tooldv1.AdminService_ListProblems_FullMethodName:         {Roles: Operator | Viewer | Administrator, Reads: true, Limit: quick},
		tooldv1.AdminService_GetLoad_FullMethodName:              {Roles: Administrator, Reads: true, Limit: quick},
		tooldv1.AdminService_ListSecrets_FullMethodName:          {Roles: Operator | Administrator, Reads: true, Limit: long, Audited: true}, // The time limit is long, because reading a secret may start a command.

		tooldv1.AdminService_CreateToken_FullMethodName: {Roles: Operator | Administrator, Limit: quick, Audited: true},
		tooldv1.AdminService_ListTokens_FullMethodName:  {Roles: Operator | Administrator, Reads: true, Limit: quick},
		tooldv1.AdminService_RevokeToken_FullMethodName: {Roles: Operator | Administrator, Limit: quick, Audited: true},
		tooldv1.AdminService_CreateLogin_FullMethodName: {Roles: anyRole, Reads: true, Limit: quick, Audited: true}, // A read-only credential may call this method, because its session is read-only too.

		tooldv1.AdminService_ReleaseCalls_FullMethodName: {Roles: Operator, Limit: long, Audited: true},
		tooldv1.AdminService_Backup_FullMethodName:       {Roles: Administrator, Limit: long, Audited: true},
		tooldv1.AdminService_ReadAudit_FullMethodName:    {Roles: Operator, Reads: true, Limit: quick},
		tooldv1.AdminService_VerifyAudit_FullMethodName:  {Roles: Operator, Reads: true, Limit: quick},

		tooldv1.AdminService_ListAuditCheckpoints_FullMethodName: {Roles: Operator, Reads: true, Limit: quick},

		tooldv1.AdminService_Purge_FullMethodName: {Roles: Operator, Limit: long, Audited: true},
	}
}
