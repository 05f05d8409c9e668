import { readUIMessageStream, type UIMessage } from 'ai';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { POST } from './route';
import { GET } from './stream';
import { sessions } from './toold';

// This file takes the place of a framework such as Next.js. It keeps chats in memory.
const chats = new Map<string, UIMessage[]>(), login = randomUUID();
const html = '<!doctype html><title>Chat</title><body><script type="module" src="/page.js"></script>';
const secure = { 'content-security-policy': "default-src 'self'", 'x-content-type-options': 'nosniff' };

async function serve(req: Request, path: string): Promise<Response> {
  const [, id, stream] = path.match(/^\/api\/chat\/([\w-]{1,64})(\/stream)?$/) ?? [];
  if (path === '/') return new Response(html, { headers: { 'content-type': 'text/html', ...secure } });
  if (path === '/page.js') return new Response(readFileSync(new URL('page.js', import.meta.url)), { headers: { 'content-type': 'text/javascript', ...secure } });
  if (path === '/login') return signIn(req);
  if (id && stream) return GET(req, id, chats.get(id)?.at(-1));
  if (id) return Response.json(chats.get(id) ?? []);
  if (path === '/api/chat' && req.method === 'POST') return post(req);
  return new Response('not found', { status: 404 });
}

/** The link that is printed at the start signs a person in. */
function signIn(req: Request): Response {
  if (new URL(req.url).searchParams.get('key') !== login) return new Response('wrong key', { status: 403 });
  const session = randomUUID();
  sessions.set(session, process.env.PERSON_TOKEN ?? '');
  return new Response(null, { status: 303, headers: { location: '/', 'set-cookie': `session=${session}; HttpOnly; SameSite=Strict; Path=/` } });
}

/** Stores the messages of the request, and the answer while it is sent. */
async function post(req: Request): Promise<Response> {
  const { id, messages }: { id: string; messages: UIMessage[] } = await req.clone().json();
  chats.set(id, messages);
  const response = await POST(req);
  if (!response.ok || !response.body) return response;
  const [out, kept] = response.body.tee();
  void keep(id, messages, kept).catch(() => undefined); // the browser has closed the page
  return new Response(out, response);
}

async function keep(id: string, messages: UIMessage[], body: ReadableStream<Uint8Array>) {
  const lines = body.pipeThrough(new TextDecoderStream() as any).pipeThrough(chunks());
  const last = messages.at(-1), message = last?.role === 'assistant' ? structuredClone(last) : undefined;
  const before = message ? messages.slice(0, -1) : messages;
  for await (const m of readUIMessageStream({ stream: lines as any, message })) chats.set(id, [...before, m]);
}

/** Turns the text of a stream of server-sent events into chunks. */
function chunks() {
  let text = '';
  return new TransformStream<string, unknown>({
    transform(piece, out) {
      const events = (text += piece).split('\n\n');
      text = events.pop()!;
      for (const e of events) if (e.startsWith('data: {')) out.enqueue(JSON.parse(e.slice(6)));
    },
  });
}

async function handle(req: IncomingMessage, res: ServerResponse) {
  const gone = new AbortController();
  res.on('close', () => gone.abort());
  const body = req.method === 'POST' ? (Readable.toWeb(req) as any) : undefined;
  const request = new Request(`http://localhost${req.url}`, { method: req.method, headers: req.headers as any, body, duplex: 'half', signal: gone.signal } as any);
  const response = await serve(request, new URL(request.url).pathname);
  const { 'content-encoding': _, ...headers } = Object.fromEntries(response.headers);
  res.writeHead(response.status, headers);
  if (response.body) Readable.fromWeb(response.body as any).on('error', () => res.destroy()).pipe(res);
  else res.end();
}

const server = createServer((req, res) => handle(req, res).catch((e) => {
  if (!res.destroyed) console.error(e);
  res.destroy();
}));
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/login?key=${login}`);
});
