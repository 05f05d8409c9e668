/** A page with the hooks of @toold/react. `show` chooses what the page follows. */
import { TooldProvider, useCall, useInbox, useRun, type CallView, type Question } from "@toold/react";
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";

interface Shown {
  baseUrl?: string;
  token?: string;
  call?: string;
  run?: string;
  inbox?: boolean;
}

declare global {
  var show: (next: Shown) => void;
  var shown: Shown;
}

function Answers({ question }: { question: Question }) {
  const [problem, setProblem] = useState("");
  const say = (answer: Promise<void>) => answer.catch((e: Error) => setProblem(`${(e as Error & { reason?: string }).reason}: ${e.message}`));
  return (
    <fieldset data-question={question.suspension.suspensionId}>
      <code>{question.suspension.pending?.arguments}</code>
      <button onClick={() => say(question.answer())}>Approve</button>
      <button onClick={() => say(question.decline("not now"))}>Decline</button>
      <output role="alert">{problem}</output>
    </fieldset>
  );
}

function View({ call }: { call: CallView }) {
  return (
    <article data-call={call.callId} data-state={call.status} data-gap={call.gap?.reason}>
      <h2>{call.tool}</h2>
      <i>{call.progress?.message}</i>
      <pre>{Object.values(call.output).join()}</pre>
      <ol>{call.events.map((e, i) => <li key={i}>{e.sequence}</li>)}</ol>
      {call.question && <Answers question={call.question} />}
      <b>{call.result?.data ?? call.result?.message ?? call.result?.modelText}</b>
    </article>
  );
}

function Call({ id }: { id: string }) {
  const { call, status, error, cancel } = useCall(id), [problem, setProblem] = useState("");
  return (
    <section data-status={status} data-error={error?.reason} data-arguments={call?.record?.requestedArguments}>
      {call && <View call={call} />}
      <button onClick={() => cancel("enough").catch((e: Error) => setProblem(e.message))}>Cancel</button>
      <output role="alert">{problem}</output>
    </section>
  );
}

function Run({ id }: { id: string }) {
  const { calls, status, gap } = useRun(id);
  return <section data-status={status} data-gap={gap?.reason}>{calls.map((call) => <View key={call.callId} call={call} />)}</section>;
}

function Inbox() {
  const { questions, status, error } = useInbox();
  return <section data-status={status} data-error={error?.reason}>{questions.map((q) => <Answers key={q.suspension.suspensionId} question={q} />)}</section>;
}

function App() {
  const [what, show] = useState<Shown>(globalThis.shown ?? {});
  globalThis.show = show;
  return (
    <TooldProvider baseUrl={what.baseUrl} token={what.token}>
      {what.call && <Call id={what.call} />}
      {what.run && <Run id={what.run} />}
      {what.inbox && <Inbox />}
    </TooldProvider>
  );
}

const root = document.body.appendChild(document.createElement("div"));
createRoot(root).render(<StrictMode><App /></StrictMode>);
