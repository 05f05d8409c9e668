import type { DescService } from "@bufbuild/protobuf";
import { createClient, type CallOptions, type Client, type Transport } from "@connectrpc/connect";
import { TooldError } from "./errors.js";
import { checkVersion } from "./version.js";

/** Creates the generated clients of one connection. They check the version of the daemon before their first request, and throw TooldErrors. */
export class Rpc {
  private checking?: Promise<void>;
  private checked = false;
  constructor(private readonly transport: Transport) {}

  client<S extends DescService>(service: S): Client<S> {
    const plain = createClient(service, this.transport) as unknown as Record<string, (request: unknown, o?: CallOptions) => unknown>;
    const ready = (o?: CallOptions) => this.checked || this.ready(o?.signal);
    const methods = service.methods.map(({ localName, methodKind }) => [localName, methodKind === "unary"
      ? async (request: unknown, o?: CallOptions) => {
        try {
          await ready(o);
          return await plain[localName]!(request, o);
        } catch (e) {
          throw TooldError.from(e, o?.signal);
        }
      }
      : async function* (request: unknown, o?: CallOptions) {
        try {
          await ready(o);
          yield* plain[localName]!(request, o) as AsyncIterable<unknown>;
        } catch (e) {
          throw TooldError.from(e, o?.signal);
        }
      }]);
    return Object.fromEntries(methods) as Client<S>;
  }

  /** Waits for the check of the version, which all requests share. A check that failed is repeated by the next request. */
  private async ready(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    this.checking ??= checkVersion(this.transport).then(() => { this.checked = true; }).finally(() => { this.checking = undefined; });
    const aborted = new Promise<never>((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason), { once: true }));
    await Promise.race([this.checking, aborted]);
  }
}
