import { person, url } from './toold';

/** Continues the stream of a chat after a page was loaded again: toold replays the calls of its newest run. */
export async function GET(req: Request, chatId: string) {
  if (!person(req)) return new Response(null, { status: 401 });
  return fetch(`${url}/v1/ui/threads/${encodeURIComponent(chatId)}/stream?version=7`, {
    headers: { authorization: `Bearer ${process.env.TOOLD_TOKEN}` }, signal: req.signal,
  });
}
