/** The search of the list of runs: words such as `agent:deployer label:env=prod`. */
export interface Filter {
  agentId: string;
  threadId: string;
  parentRunId: string;
  caller: string;
  labels: Record<string, string>;
  /** The id of a run or thread to open: a word without a key. */
  id: string;
  /** What is wrong with the search, or "". */
  wrong: string;
}

const fields = { agent: "agentId", thread: "threadId", parent: "parentRunId", caller: "caller" } as const;

export function parse(search: string): Filter {
  const f: Filter = { agentId: "", threadId: "", parentRunId: "", caller: "", labels: {}, id: "", wrong: "" };
  for (const word of search.split(/\s+/).filter(Boolean)) {
    const colon = word.indexOf(":");
    const name = word.slice(0, Math.max(colon, 0)), value = word.slice(colon + 1);
    if (name in fields) f[fields[name as keyof typeof fields]] = value;
    else if (name === "label") {
      const equals = value.indexOf("=");
      if (equals < 1) f.wrong = `${word} needs a value: label:env=prod.`;
      else f.labels[value.slice(0, equals)] = value.slice(equals + 1);
    } else f.id = word;
  }
  return f;
}
