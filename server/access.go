package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// roles is a set of roles.
type roles uint8

// The roles of the API, in the order of roleNames. Each holds within a namespace, except administrator (admin in configuration
// and records), which holds for the whole daemon.
const (
	caller roles = 1 << iota
	delegate
	approver
	operator
	worker
	viewer
	administrator

	anyRole = caller | delegate | approver | operator | worker | viewer | administrator
)

var roleNames = []string{"caller", "delegate", "approver", "operator", "worker", "viewer", "admin"}

// rolesOf returns the set of roles with these names.
func rolesOf(names []string) (roles, error) {
	var set roles
	for _, name := range names {
		i := slices.Index(roleNames, name)
		if i < 0 {
			return 0, fmt.Errorf("role %q: want one of %s", name, strings.Join(roleNames, ", "))
		}
		set |= 1 << i
	}
	return set, nil
}

func (r roles) names() []string {
	var names []string
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// access says who may call a method.
type access struct {
	roles  roles // any of them is enough
	public bool  // without any credential
	// limit bounds a call whose client names no nearer deadline; 0 leaves it to the handler, which waits for others.
	limit time.Duration
	// unending streams have no end of their own and are ended when the server stops.
	unending bool
	// heedless handlers wait for the client whatever becomes of their context: they are left when it ends.
	heedless bool
	// audited ones are told to who keeps an audit. They answer once.
	audited bool
}

// quick bounds what answers from memory or the journal.
const quick = 30 * time.Second

// long bounds what looks at many calls.
const long = time.Hour

// table names every method and who may call it. What is not here is served to nobody.
func table() map[string]access {
	see := caller | delegate | approver | viewer | operator
	end := caller | delegate | operator
	look := caller | delegate | viewer | operator
	return map[string]access{
		tooldv1.CallService_ExecuteTool_FullMethodName:  {roles: caller | delegate},
		tooldv1.CallService_ExecuteBatch_FullMethodName: {roles: caller | delegate},
		tooldv1.CallService_CallTool_FullMethodName:     {roles: caller | delegate},
		tooldv1.CallService_ResumeTool_FullMethodName:   {roles: approver | operator | caller | delegate},
		tooldv1.CallService_WatchCalls_FullMethodName:   {roles: see},
		tooldv1.CallService_Session_FullMethodName:      {roles: see}, // and of each item what its method needs
		tooldv1.CallService_GetCall_FullMethodName:      {roles: see, limit: quick},
		tooldv1.CallService_ListCalls_FullMethodName:    {roles: see, limit: quick},
		tooldv1.CallService_CancelCall_FullMethodName:   {roles: end},
		tooldv1.CallService_CancelCalls_FullMethodName:  {roles: end, limit: quick},
		tooldv1.CallService_DescribeCall_FullMethodName: {roles: caller | delegate, limit: quick, audited: true},
		tooldv1.CallService_ReadArtifact_FullMethodName: {roles: see, limit: quick},
		tooldv1.CallService_SendInput_FullMethodName:    {roles: caller | delegate, limit: quick},
		tooldv1.CallService_GetRun_FullMethodName:       {roles: see, limit: quick},
		tooldv1.CallService_EndRun_FullMethodName:       {roles: end, limit: quick, audited: true},

		tooldv1.CallService_ListRules_FullMethodName:         {roles: see, limit: quick},
		tooldv1.CallService_RevokeRule_FullMethodName:        {roles: end | approver, limit: quick, audited: true},
		tooldv1.CallService_SetPermissionMode_FullMethodName: {roles: end | approver, limit: quick, audited: true},

		tooldv1.ToolService_ListTools_FullMethodName:   {roles: see, limit: quick},
		tooldv1.ToolService_GetTool_FullMethodName:     {roles: see, limit: quick},
		tooldv1.ToolService_ExportTools_FullMethodName: {roles: see, limit: quick},
		tooldv1.ToolService_WatchTools_FullMethodName:  {roles: see, unending: true},

		tooldv1.DocumentService_GetDocument_FullMethodName:    {roles: look, limit: quick},
		tooldv1.DocumentService_ListDocuments_FullMethodName:  {roles: look, limit: quick},
		tooldv1.DocumentService_PutDocument_FullMethodName:    {roles: end, limit: quick},
		tooldv1.DocumentService_DeleteDocument_FullMethodName: {roles: end, limit: quick},

		tooldv1.WorkerService_Connect_FullMethodName:        {roles: worker | operator, unending: true},
		tooldv1.AdminService_ListDeadLetters_FullMethodName: {roles: operator, limit: quick},
		tooldv1.AdminService_RetryDeadLetter_FullMethodName: {roles: operator, limit: quick, audited: true},

		tooldv1.AdminService_GetInfo_FullMethodName:              {roles: anyRole, limit: quick},
		tooldv1.AdminService_Reload_FullMethodName:               {roles: administrator, limit: quick, audited: true},
		tooldv1.AdminService_Drain_FullMethodName:                {roles: administrator, limit: quick, audited: true},
		tooldv1.AdminService_SetLogLevel_FullMethodName:          {roles: administrator, limit: quick, audited: true},
		tooldv1.AdminService_ListQuarantinedTools_FullMethodName: {roles: operator | administrator, limit: quick},
		tooldv1.AdminService_AcceptTool_FullMethodName:           {roles: operator | administrator, limit: quick, audited: true},
		tooldv1.AdminService_ListSources_FullMethodName:          {roles: operator | administrator, limit: quick},
		tooldv1.AdminService_ListSecrets_FullMethodName:          {roles: operator | administrator, limit: long, audited: true}, // it may start commands

		tooldv1.AdminService_ReleaseCalls_FullMethodName: {roles: operator, limit: long, audited: true},
		tooldv1.AdminService_Backup_FullMethodName:       {roles: administrator, limit: long, audited: true},
		tooldv1.AdminService_ReadAudit_FullMethodName:    {roles: operator, limit: quick},
		tooldv1.AdminService_Purge_FullMethodName:        {roles: operator, limit: long, audited: true},

		// Probes have no credentials, and the answer is a word.
		grpc_health_v1.Health_Check_FullMethodName: {public: true, limit: quick},
		grpc_health_v1.Health_List_FullMethodName:  {roles: anyRole, limit: quick},
		grpc_health_v1.Health_Watch_FullMethodName: {roles: anyRole, unending: true},

		reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName:      {roles: anyRole, unending: true, heedless: true},
		reflectionv1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: {roles: anyRole, unending: true, heedless: true},
	}
}

// checkTable returns an error when a registered method has no entry or nobody may call it.
func checkTable(t map[string]access, services map[string]grpc.ServiceInfo) error {
	var missing []string
	for service, info := range services {
		for _, m := range info.Methods {
			name := "/" + service + "/" + m.Name
			if a, ok := t[name]; !ok || a.roles == 0 && !a.public {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("methods that the table of access does not name: %s", strings.Join(missing, ", "))
	}
	return nil
}
