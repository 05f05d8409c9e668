import { Client } from 'toold';

/** The app's own client. Its token has the role caller, and cannot approve. */
export const client = new Client(process.env.TOOLD_ADDRESS, { token: process.env.TOOLD_TOKEN });

/** The address of toold's HTTP endpoint. */
export const url = process.env.TOOLD_HTTP ?? 'http://127.0.0.1:7131';

/** Tokens of the people who are signed in, by the value of their cookie. An app with its own sign-in has the tokens of its identity provider. */
export const sessions = new Map<string, string>();

/** Returns toold's endpoint with the credential of the person who sends the request. */
export function person(req: Request) {
  const token = sessions.get(req.headers.get('cookie')?.match(/(?:^|; )session=([\w-]+)/)?.[1] ?? '');
  return token ? { url, headers: { authorization: `Bearer ${token}` } } : undefined;
}
