import * as net from "node:net";
import type { Interceptor, Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";

/** Where a daemon is: host:port, unix:/path, or an https:// URL. */
export function connect(address: string, token: string): Transport {
  const interceptors: Interceptor[] = token ? [(next) => (req) => {
    req.header.set("authorization", "Bearer " + token.trim());
    return next(req);
  }] : [];
  if (address.startsWith("unix:")) {
    const path = address.slice("unix:".length);
    return createGrpcTransport({
      baseUrl: "http://localhost", interceptors, nodeOptions: { createConnection: () => net.connect(path) },
    });
  }
  const baseUrl = address.includes("://") ? address : "http://" + address;
  return createGrpcTransport({ baseUrl, interceptors, pingIntervalMs: 60_000 });
}

export const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
