/** Tests to which addresses a token may be sent, connections with certificates, and Client.close. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import * as http2 from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { AdminService } from "../gen/toold/v1/admin_service_pb.js";
import { CallService } from "../gen/toold/v1/call_service_pb.js";
import { Client, Code, TooldError, Worker } from "../src/index.js";

const near = ["127.0.0.1:7130", "localhost:7130", "[::1]:7130", "127.9.9.9:1", "unix:/run/toold.sock", "unix:///run/toold.sock", "/run/toold.sock", "./toold.sock",
  "http://127.0.0.1:7130", "https://toold.example", "https://toold.example:7130"];
const far = ["toold.example:7130", "10.0.0.5:7130", "http://toold.example:7130", "localhost.example:7130", "127.0.0.1.example:7130", "127.0.0.1:7130@toold.example",
  "[2001:db8::1]:7130", "0.0.0.0:7130", "http://127.0.0.1@toold.example"];

test("tokens stay on this machine", async () => {
  for (const address of near) new Client(address, { token: "secret" }).close();
  for (const address of far) {
    assert.throws(() => new Client(address, { token: "secret" }), Error, address);
    await assert.rejects(new Worker({ pool: "p", address, token: "secret" }).run(), Error, address);
  }
  new Client("toold.example:7130").close();
  new Client("toold.example:7130", { token: "secret", tls: {} }).close();
});

/** Creates a certificate authority, and certificates for the daemon and for a client. */
function certificates(dir: string) {
  const openssl = (...args: string[]) => execFileSync("openssl", args, { cwd: dir, stdio: "pipe" });
  const pem = (name: string) => readFileSync(join(dir, name));
  openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca", "-days", "2");
  for (const name of ["daemon", "client"]) {
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", name + ".key", "-out", name + ".csr", "-subj", "/CN=" + name, "-addext", "subjectAltName=IP:127.0.0.1");
    openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", name + ".pem", "-days", "2", "-copy_extensions", "copy");
  }
  return pem;
}

test("certificates, and close", async () => {
  const dir = mkdtempSync(join(tmpdir(), "toold-"));
  const seen: string[] = [];
  const pem = certificates(dir);
  const server = http2.createSecureServer(
    { ca: pem("ca.pem"), cert: pem("daemon.pem"), key: pem("daemon.key"), requestCert: true, rejectUnauthorized: true },
    connectNodeAdapter({
      routes: (router) => router.service(AdminService, { getInfo: () => ({ version: "0.1.0" }) }).service(CallService, {
        getCall: (r, c) => {
          seen.push(c.requestHeader.get("authorization") ?? "");
          return { call: { callId: r.callId } };
        },
        async *watchCalls(_, c) {
          yield { frame: { cursor: "1", control: { case: "caughtUp", value: {} } } };
          await new Promise((resolve) => c.signal.addEventListener("abort", resolve));
        },
      }),
    }));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    const client = new Client(address, { token: "secret", tls: { ca: pem("ca.pem"), cert: pem("client.pem"), key: pem("client.key") } });
    assert.equal((await client.get("a")).callId, "a");
    assert.deepEqual(seen, ["Bearer secret"]);
    const frames = client.watch({ selector: { case: "callId", value: "a" } });
    assert.equal((await frames.next()).value?.cursor, "1");
    client.close();
    await assert.rejects(frames.next(), (e) => e instanceof TooldError && e.code === Code.Canceled);
    await assert.rejects(client.get("a"), (e) => e instanceof TooldError && e.code === Code.Canceled);

    for (const tls of [{ ca: pem("ca.pem") }, { ca: "", cert: pem("client.pem"), key: pem("client.key") }]) { // without a client certificate, and without our authority
      const stranger = new Client(address, { token: "secret", tls, patience: 0 });
      await assert.rejects(stranger.get("a"));
      stranger.close();
    }
  } finally {
    server.close();
    rmSync(dir, { recursive: true });
  }
});
