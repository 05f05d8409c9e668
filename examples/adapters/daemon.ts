/** A daemon for the tests. TOOLD is the path of the program. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { setTimeout } from "node:timers/promises";
import { Client, type CallRecord } from "toold";

const tokens = { agent: "the-token-of-the-agent", person: "the-token-of-the-person" };
const hash = (token: string) => "sha256:" + createHash("sha256").update(token).digest("hex");

/** Starts a daemon whose calls of `write` need a person. It ends after the tests. */
export async function start() {
  const home = mkdtempSync(join(tmpdir(), "toold-adapters-")), workspace = join(home, "workspace"), socket = join(home, "socket");
  mkdirSync(workspace);
  writeFileSync(join(workspace, "note"), "forty-two\n");
  writeFileSync(join(home, "rules.yaml"), `
rules:
  - {name: a person decides, action: ask, tools: [write]}
  - {name: nobody writes this, action: deny, tools: ['write(path = "secret")'], reason: not here}
`);
  writeFileSync(join(home, "toold.yaml"), `
listen: {tcp: "", unix: "${socket}"}
log: {level: warn}
rules: "${join(home, "rules.yaml")}"
auth:
  tokens:
    - {name: agent, roles: [caller], hash: "${hash(tokens.agent)}"}
    - {name: person, roles: [approver, viewer], hash: "${hash(tokens.person)}"}
`);
  const daemon = spawn(process.env.TOOLD!, ["serve", "--config", "toold.yaml", "--data", "data", "--workspace", workspace], { cwd: home, stdio: ["ignore", "ignore", "inherit"] });
  const ended = new Promise((resolve) => daemon.on("exit", resolve));
  const agent = new Client("unix:" + socket, { token: tokens.agent }), person = new Client("unix:" + socket, { token: tokens.person });
  after(async () => {
    agent.close();
    person.close();
    daemon.kill();
    await ended;
    rmSync(home, { recursive: true });
  });
  const read = (name: string) => (existsSync(join(workspace, name)) ? readFileSync(join(workspace, name), "utf8") : undefined);
  /** The calls of a thread, oldest first. */
  const calls = async (threadId: string): Promise<CallRecord[]> => (await person.calls.listCalls({ threadId })).calls.reverse();
  /** Waits until the call of the thread has ended or waits for a person. */
  const rests = async (threadId: string): Promise<CallRecord> => {
    for (;; await setTimeout(20)) {
      const [call] = await calls(threadId);
      if (call && (call.suspension || call.result)) return call;
    }
  };
  await agent.toolset("openai"); // waits until the daemon serves
  return { agent, person, read, calls, rests };
}
