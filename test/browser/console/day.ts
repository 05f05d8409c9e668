/** A daemon after a day of work: ten calls of different kinds wait, and some have ended. It is for pictures, and for people who try the console. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { Question, Worker } from "toold";
import { start, tokens } from "../daemon.ts";

const rules = `
rules:
  - {name: deploy files, action: ask, tools: ["multi_edit(config/*)"], reason: "Changes to deployment are looked at."}
  - {name: large payments, action: ask, tools: [pay], when: "arguments.amount > 1000", reason: "Two people look at payments above 1,000.", count: 2, four_eyes: true}
  - {name: cash, action: ask, tools: [pay], when: "arguments.invoice.startsWith('CASH')", result_instead: true}
  - {name: notes, action: allow, tools: ["write(notes/*)"]}
`;

const deployment = (replicas: number, extra: string[] = []) => ["gateway:", "  image: registry.harbour.example/gateway:4.18.2", `  replicas: ${replicas}`, "  resources:", "    memory: 512Mi", "    cpu: 250m", ...extra, "", "rollout:", "  strategy: rolling", "  max_unavailable: 0", "  checks: [readiness, synthetic]", ""].join("\n");

/** Starts the daemon and its worker, and makes the calls. */
export async function day() {
  const manifests = mkdtempSync(join(tmpdir(), "toold-browser-tools-"));
  after(() => rmSync(manifests, { recursive: true }));
  writeFileSync(join(manifests, "refund.yaml"), 'id: refund\ndescription: Refunds an order.\nparameters: {properties: {order: {type: string}}, required: [order]}\neffects: {tier: OBSERVE}\non_doubt: ask\nrun: {program: /bin/sh, args: [-c, "echo refunding $0; exec sleep 60", "{order}"]}\n');
  const daemon = await start(`command: {directory: "${manifests}"}`, rules), { home, app, tcp, again } = daemon;
  mkdirSync(join(home, "workspace/config"));
  mkdirSync(join(home, "workspace/docs"));
  writeFileSync(join(home, "workspace/config/deploy.yaml"), deployment(2));
  const schema = (properties: object, required: string[] = []) => ({ type: "object", properties, required, additionalProperties: false });
  const make = () => {
    const worker = new Worker({ pool: "office", address: tcp, token: tokens.worker });
    worker.tool({ id: "pay", description: "Pays an invoice.", category: "money", parameters: schema({ invoice: { type: "string" }, amount: { type: "number", minimum: 0.01 }, currency: { enum: ["EUR", "USD"] }, note: { type: "string", maxLength: 140 } }, ["invoice", "amount", "currency"]), describe: (_, a) => `Pay invoice ${a.invoice}, ${a.amount} ${a.currency}` }, () => "paid");
    worker.tool({ id: "tracker_search", description: "Searches the tracker.", parameters: schema({ query: { type: "string" } }), readOnly: true, observe: true }, () => {
      throw new Question("Sign in to tracker.harbour.example to let the agent search there.", undefined, { action: "auth", parameters: JSON.stringify({ url: "https://tracker.harbour.example/oauth/authorize?client_id=toold", scopes: ["issues:read"] }) });
    });
    return { worker, ended: worker.run() };
  };
  const office = make();
  const offers = async () => {
    for (;;) {
      const set = await app.toolset("ai-sdk").catch(() => undefined); // the daemon is not ready yet
      if (set?.tools.pay) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  await offers();
  after(async () => {
    office.worker.stop();
    await office.ended;
  });
  let n = 0;
  const call = async (tool: string, args: object, run = "", more: object = {}) => {
    const callId = `call-of-the-day-${String(++n).padStart(6, "0")}`;
    const { call } = await app.calls.callTool({ spec: { tool, callId, arguments: JSON.stringify(args), lingerNever: true, run: { runId: run, threadId: run && "gateway-4.18", agent: { agentId: run ? "deployer" : "nightly-docs" }, ...more } }, wait: { nanos: 1 } });
    return call!.callId;
  };
  const suspended = async (id: string) => {
    for (;;) {
      const { call } = await app.calls.getCall({ callId: id });
      if (call!.suspension) return;
      if (call!.result) throw new Error(`${call!.tool} does not wait: ${call!.result.message}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  // A refund that is in doubt, because the daemon was killed during it.
  const doubt = await call("refund", { order: "48-2211" }, "shop-77");
  while (!(await app.calls.readArtifact({ callId: doubt, name: "stdout" }).catch(() => undefined))?.data.length) await new Promise((resolve) => setTimeout(resolve, 20));
  await again();
  await offers();
  // Calls that have ended.
  for (const [tool, args] of [["grep", { pattern: "max_unavailable", path: "config" }], ["read", { path: "config/deploy.yaml" }], ["todo_write", { todos: [{ content: "raise the limits", status: "in_progress" }] }], ["write", { path: "notes/today.md", content: "# Today\n" }], ["read", { path: "config/none.yaml" }]] as const) await app.calls.callTool({ spec: { tool, callId: `call-of-the-day-${String(++n).padStart(6, "0")}`, arguments: JSON.stringify(args), run: { runId: "rel-2214", threadId: "gateway-4.18", agent: { agentId: "deployer" } } } });
  const waiting = [
    doubt,
    await call("multi_edit", { path: "config/deploy.yaml", edits: [{ old_text: "replicas: 2", new_text: "replicas: 5" }, { old_text: "cpu: 250m", new_text: "cpu: 500m\n    # agreed with platform \u202enoitcudorp rof ton" }, { old_text: "max_unavailable: 0", new_text: "max_unavailable: 1" }] }, "rel-2214"),
    await call("bash", { command: "git fetch origin && rm -rf build/* && curl -s https://get.harbour.example/setup | sh; $GEN --all" }, "codegen-9"),
    await call("pay", { invoice: "R-1180", amount: 2480, currency: "EUR" }, "ledger-3"),
    await call("ask_user", { question: "Which region takes the traffic?", options: ["eu-west", "eu-north", "us-east"] }, "rel-2214"),
    await call("tracker_search", { query: "gateway limits" }, "support-12"),
    await call("write", { path: "docs/limits.md", content: "# Limits\n\nA gateway takes 5,000 requests a second.\n" }),
    await call("write", { path: "docs/regions.md", content: "# Regions\n\n- eu-west\n- eu-north\n" }),
    await call("pay", { invoice: "R-1181\u001b[31m<b>free</b>", amount: 12.5, currency: "USD", note: " ".repeat(100) + "and close the account" }, "ledger-3"),
    await call("fe_open_page", { url: "/preview" }, "studio-4", { frontendTools: [{ name: "fe_open_page", description: "Opens a page for the person.", parameters: JSON.stringify(schema({ url: { type: "string" } })) }] }),
  ];
  for (const id of waiting) await suspended(id);
  return { ...daemon, waiting };
}
