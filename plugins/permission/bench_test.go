package permission_test

import (
	"testing"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// twentyRules is a realistic rule set: most rules concern other tools than the called one.
const twentyRules = `
default: {OBSERVE: allow, CONFIRM: ask, ESCALATE: ask}
rules:
  - {name: reading,     action: allow,      tools: [read, glob, grep, "todo_*"]}
  - {name: secrets,     action: deny,       tools: ['read(*.pem)', 'read(*/.ssh/*)', 'grep(path ~ "secrets/*")']}
  - {name: shell,       action: ask,        tools: [bash]}
  - {name: git,         action: allow,      tools: ["bash(git status*)", "bash(git diff*)", "bash(git log*)"]}
  - {name: pushes,      action: ask always, tools: ["bash(git push*)"], approvers: [operator]}
  - {name: remove,      action: deny,       tools: ["bash(rm *)"]}
  - {name: web,         action: deny,       tools: ["web_*"], callers: [nightly]}
  - {name: docs,        action: allow,      tools: ["fetch(https://docs.rs/*)"]}
  - {name: deployments, action: ask,        tools: ["deploy_*"], four_eyes: true}
  - {name: databases,   action: block,      tools: ['/^db_.*drop/']}
  - {name: mail,        action: ask,        tools: [send_mail], when: '!arguments.to.endsWith("@example.com")'}
  - {name: issues,      action: allow,      tools: ["issue_*"]}
  - {name: sources,     action: allow,      tools: ["write(src/*)", "edit(src/*)"]}
  - {name: ci,          action: deny,       tools: ["write(.github/*)", "edit(.github/*)"]}
  - {name: guests,      action: deny,       tools: ["*"], callers: ["guest-*"]}
  - {name: imports,     action: ask,        sources: [mcp], tiers: [CONFIRM]}
  - {name: memory,      action: allow,      tools: [remember, recall]}
  - {name: pods,        action: ask,        tools: ["k8s_*"]}
  - {name: reports,     action: allow,      tools: [report], callers: [nightly]}
  - {name: payments,    action: ask,        tools: ['pay(amount =~ "^[0-9]{4,}")'], count: 2}
`

// BenchmarkGate measures a read-only call that a rule allows, because most calls are of this kind and the gate checks every call.
func BenchmarkGate(b *testing.B) {
	g := gate(b, twentyRules)
	grep := callOf(b, "grep", `{"pattern":"func [A-Z]","path":"src/server","limit":100,"recursive":true,"context":3}`)
	grep.Assessment = tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}
	grep.Run = tool.Run{ID: "run", Thread: "thread"}
	plain := callOf(b, "glob", `{"pattern":"*.go"}`)
	plain.Assessment = grep.Assessment
	mail := callOf(b, "send_mail", `{"to":"a@example.com"}`)
	mail.Assessment = grep.Assessment
	for name, in := range map[string]*hook.Input{"by id": plain, "by arguments": grep, "by expression": mail} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v, err := g.Check(b.Context(), in); err != nil || v.Kind() != hook.KindAllow {
					b.Fatal(v.Kind(), err)
				}
			}
		})
	}
	b.Run("hidden", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if g.Hidden(plain.Caller, plain.Descriptor) {
				b.Fatal("hidden")
			}
		}
	})
}
