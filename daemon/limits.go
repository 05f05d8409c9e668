package daemon

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
)

// engineLimits copies the configured limits into the configuration of the engine.
func engineLimits(c *config.Config, to *lifecycle.Config) {
	l := &c.Limits
	to.Documents, to.Limits, to.QueueTimeout = c.Documents, callLimits(l), c.Timeouts.Queue
	to.OutputBudget, to.OutputQuota, to.MaxArguments = l.OutputBudget, int64(l.OutputQuota), l.Arguments
}

func callLimits(l *config.Limits) call.Limits {
	limits := call.Limits{
		Concurrency: l.Concurrency, QueueLength: l.QueueLength,
		NamespaceConcurrency: l.ConcurrencyNamespace, PrincipalConcurrency: l.ConcurrencyPrincipal,
		NamespaceQueue: l.QueueNamespace, PrincipalQueue: l.QueuePrincipal, NamespaceQuestions: l.QuestionsNamespace, PrincipalQuestions: l.QuestionsPrincipal,
		CircuitFailures: l.CircuitFailures, CircuitOpen: l.CircuitOpen, StoredBytes: int64(l.StoredBytes),
	}
	for _, t := range l.ConcurrencyTools {
		limits.ToolConcurrency = append(limits.ToolConcurrency, call.ToolLimit(t))
	}
	return limits
}

// outputLimits returns the limits of the spool.
func outputLimits(c *config.Config) store.OutputLimits {
	return store.OutputLimits{Thread: int64(c.Limits.OutputQuotaThread), Namespace: int64(c.Limits.OutputQuotaNamespace)}
}
