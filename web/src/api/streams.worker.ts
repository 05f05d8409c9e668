import { serve } from "./streams.ts";

declare const self: { onconnect: (e: MessageEvent) => void };
self.onconnect = (e) => serve(e.ports[0]!);
