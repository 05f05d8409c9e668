import type { UIMessage } from 'ai';
import { withTexts } from 'toold';
import { person, url } from './toold';

/** Continues the stream of a chat after the page was loaded again: toold replays the calls of the newest run. The texts of the model come from the app. */
export async function GET(req: Request, chatId: string, last?: UIMessage) {
  if (!person(req)) return new Response(null, { status: 401 });
  const response = await fetch(`${url}/v1/ui/threads/${encodeURIComponent(chatId)}/stream?version=7`, {
    headers: { authorization: `Bearer ${process.env.TOOLD_TOKEN}` }, signal: req.signal,
  });
  return withTexts(response, last);
}
