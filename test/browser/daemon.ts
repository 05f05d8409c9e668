/** A daemon with HTTP for the tests. TOOLD is the path of the program. */
import { spawn, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after } from "node:test";
import { Client, Worker } from "toold";

export const tokens = { app: "the-token-of-the-app---", person: "the-token-of-the-person", operator: "the-token-of-the-operator", admin: "the-token-of-the-admin-", worker: "the-token-of-the-worker" };
const hash = (token: string) => "sha256:" + createHash("sha256").update(token).digest("hex");

/** Returns the first line that a program prints. */
export async function line(program: ChildProcess): Promise<string> {
  for await (const text of createInterface(program.stdout!)) return text;
  throw new Error("the program printed nothing");
}

const askBeforeDeploy = "rules:\n  - {name: a person decides, action: ask, tools: [deploy]}\n  - {name: notes, action: allow, tools: [write]}\n";

/**
 * Starts a daemon that asks a person before it deploys. settings and rules change its configuration. It ends after the tests. `again` kills it and
 * starts it again at the same addresses.
 */
export async function start(settings = "", rules = askBeforeDeploy) {
  const home = mkdtempSync(join(tmpdir(), "toold-browser-"));
  mkdirSync(join(home, "workspace"));
  writeFileSync(join(home, "rules.yaml"), rules);
  writeFileSync(join(home, "toold.yaml"), `
listen: {tcp: "127.0.0.1:0", unix: "${join(home, "socket")}", http: "127.0.0.1:0"}
log: {level: warn}
${settings}
rules: "${join(home, "rules.yaml")}"
auth:
  tokens:
    - {name: app, roles: [caller], hash: "${hash(tokens.app)}"}
    - {name: person, roles: [approver, viewer], hash: "${hash(tokens.person)}"}
    - {name: operator, roles: [caller, approver, viewer, operator], hash: "${hash(tokens.operator)}"}
    - {name: admin, roles: [viewer, operator, admin], hash: "${hash(tokens.admin)}"}
    - {name: worker, roles: [worker], hash: "${hash(tokens.worker)}"}
`);
  const run = (...args: string[]) => spawn(process.env.TOOLD!, ["serve", "--config", "toold.yaml", "--data", "data", "--workspace", "workspace", ...args], { cwd: home, stdio: ["ignore", "pipe", "inherit"] });
  let daemon = run();
  const { http, tcp } = JSON.parse(await line(daemon)) as { http: string; tcp: string };
  const again = async () => {
    daemon.kill("SIGKILL");
    await once(daemon, "exit");
    daemon = run("--listen-tcp", tcp, "--listen-http", new URL(http).host);
    await line(daemon);
  };
  const app = new Client(tcp, { token: tokens.app }), person = new Client(tcp, { token: tokens.person });
  after(async () => {
    app.close();
    person.close();
    daemon.kill();
    await once(daemon, "exit");
    rmSync(home, { recursive: true });
  });
  return { http, tcp, app, person, home, again };
}

/**
 * Starts a worker with two tools: `steps` reports one step for each call of `next`, and `deploy`. After a restart of the daemon, `ready` waits until the
 * daemon has these tools.
 */
export async function tools(address: string, app: Client) {
  const steps: (() => void)[] = [], deployed: string[] = [];
  const worker = new Worker({ pool: "tools", address, token: tokens.worker });
  const schema = (properties: object) => ({ type: "object", properties, additionalProperties: false });
  worker.tool<{ count: bigint }>({ id: "steps", description: "Makes steps.", parameters: schema({ count: { type: "integer" } }), readOnly: true, observe: true }, async (call, { count }) => {
    for (let i = 1; i <= Number(count); i++) {
      await new Promise<void>((resolve) => steps.push(resolve));
      call.progress(i / Number(count), `step ${i}`);
      call.output(`step ${i}\n`);
      await call.flushed();
    }
    return { steps: Number(count) };
  });
  worker.tool<{ target: string }>({ id: "deploy", description: "Deploys.", parameters: schema({ target: { type: "string" } }) }, (call, { target }) => {
    deployed.push(target);
    return `Deployed to ${target}.`;
  });
  const ended = worker.run();
  after(async () => {
    worker.stop();
    await ended;
  });
  const ready = async () => {
    for (const toolset = await app.toolset("ai-sdk"); !toolset.tools.deploy; await toolset.refresh()) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  await ready();
  const next = async () => {
    while (steps.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    steps.shift()!();
  };
  return { next, deployed, ready };
}
