/** The same chat with version 6 of the AI SDK. */
process.env.CHAT = new URL("dist/chat6/server.js", import.meta.url).pathname;
await import("./chat.test.ts");
