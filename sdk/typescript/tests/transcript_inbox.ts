/** The inbox of daemon.TestInboxOfSDKs. For each line that it reads, it prints the id of the next call. */
import { createInterface } from "node:readline";
import { Client } from "../src/index.js";

const inbox = new Client(process.argv[2], { token: process.env.TOOLD_TEST_TOKEN }).inbox({ readMask: { paths: ["call_id"] } });
for await (const _ of createInterface({ input: process.stdin })) process.stdout.write((await inbox.next()).value?.callId + "\n");
process.exit(0);
