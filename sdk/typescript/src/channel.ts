import type { SecureClientSessionOptions } from "node:http2";
import * as net from "node:net";
import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

/** Certificates in PEM. This option turns TLS on, even if it is an empty object. */
export interface TLS {
  /** The accepted certificate authorities of the daemon. Default: the system's authorities. */
  ca?: string | Uint8Array;
  /** The client certificate, with its key. */
  cert?: string | Uint8Array;
  key?: string | Uint8Array;
}

/**
 * A token, or a function that returns the token for each request. The function is for tokens that expire: it returns the same token until it gets a
 * new one.
 */
export type Token = string | (() => string | Promise<string>);

/** The connection to a daemon. */
export interface Channel {
  transport: Transport;
  /** Closes the connection and all its streams. Later requests fail. */
  close(): void;
}

/**
 * Returns a channel to host:port, the path of a socket (also as unix:/path), or an http:// or https:// URL. The first request opens the
 * connection. Without TLS, a token is sent only to this machine; for other addresses connect throws.
 */
export function connect(address: string, token: Token, tls?: TLS): Channel {
  const path = socketPath(address);
  const url = path === undefined ? daemonURL(address, tls) : new URL("http://localhost");
  if (token && path === undefined && url.protocol === "http:" && !loopback(url.hostname)) {
    throw new Error(`the token would be sent to ${url.host} unencrypted; use https:// or tls`);
  }
  const sessions = new Http2SessionManager(url, { pingIntervalMs: 60_000 }, path === undefined ? (tls as SecureClientSessionOptions | undefined) : { createConnection: () => net.connect(path) });
  let closed = false;
  const ahead: Interceptor = (next) => async (req) => {
    if (closed) throw new ConnectError("the client is closed", Code.Canceled);
    const now = typeof token === "string" ? token : await token();
    if (now) req.header.set("authorization", "Bearer " + now.trim());
    return next(req);
  };
  return {
    transport: createGrpcTransport({ baseUrl: url.origin, interceptors: [ahead], sessionManager: sessions }),
    close() {
      closed = true;
      sessions.abort();
    },
  };
}

function socketPath(address: string): string | undefined {
  if (address.startsWith("unix:")) return address.slice("unix:".length).replace(/^\/\/(?=\/)/, "");
  return address.includes("/") && !address.includes("://") ? address : undefined;
}

function daemonURL(address: string, tls?: TLS): URL {
  const url = new URL(address.includes("://") ? address : (tls ? "https://" : "http://") + address);
  if (!["http:", "https:"].includes(url.protocol) || url.username || url.password || url.pathname !== "/" || url.search || url.hash) {
    throw new Error(`${address} is not host:port, the path of a socket, http://host:port or https://host:port`);
  }
  if (tls && url.protocol === "http:") throw new Error(`${address} is without TLS, and the option tls is given`);
  return url;
}

/** Reports whether a connection to the host stays on this machine. */
function loopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127(\.\d+){3}$/.test(host) || /^\[::ffff:7f[0-9a-f]{2}:/.test(host);
}
