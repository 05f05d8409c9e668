package daemon

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/lifecycle"
	grpcserver "github.com/toold-dev/toold/server/grpc"
	"github.com/toold-dev/toold/store"
)

// engineLimits puts the limits of the configuration into that of the engine.
func engineLimits(c *config.Config, to *lifecycle.Config) {
	l := &c.Limits
	to.Documents = c.Documents
	to.Concurrency, to.QueueLength, to.QueueTimeout = l.Concurrency, l.QueueLength, c.Timeouts.Queue
	to.OutputBudget, to.OutputQuota, to.MaxArguments = l.OutputBudget, int64(l.OutputQuota), l.Arguments
	to.NamespaceConcurrency, to.PrincipalConcurrency = l.ConcurrencyNamespace, l.ConcurrencyPrincipal
	for _, t := range l.ConcurrencyTools {
		to.ToolConcurrency = append(to.ToolConcurrency, call.ToolLimit(t))
	}
	to.NamespaceQueue, to.PrincipalQueue = l.QueueNamespace, l.QueuePrincipal
	to.NamespaceQuestions, to.PrincipalQuestions = l.QuestionsNamespace, l.QuestionsPrincipal
	to.CircuitFailures, to.CircuitOpen, to.StoredBytes = l.CircuitFailures, l.CircuitOpen, int64(l.StoredBytes)
}

// output is what the spool is held to.
func outputLimits(c *config.Config) store.OutputLimits {
	return store.OutputLimits{Thread: int64(c.Limits.OutputQuotaThread), Namespace: int64(c.Limits.OutputQuotaNamespace)}
}

// showLimits puts them where GetInfo finds them.
func showLimits(c *config.Config, to *grpcserver.Limits) {
	l := &c.Limits
	to.RunningCalls, to.QueuedCalls = l.Concurrency, l.QueueLength
	to.RunningNamespace, to.RunningPrincipal = l.ConcurrencyNamespace, l.ConcurrencyPrincipal
	var engine lifecycle.Config
	engineLimits(c, &engine)
	to.RunningTools = engine.ToolConcurrency
	to.QueuedNamespace, to.QueuedPrincipal = engine.QueueShares()
	to.OutputThread, to.OutputNamespace = int64(l.OutputQuotaThread), int64(l.OutputQuotaNamespace)
	to.SuspensionsNamespace, to.SuspensionsPrincipal = l.QuestionsNamespace, l.QuestionsPrincipal
	to.CircuitFailures, to.CircuitOpen, to.StoredNamespace = l.CircuitFailures, l.CircuitOpen, int64(l.StoredBytes)
}
