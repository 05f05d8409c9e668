/** Saves the tools that the viewer sees in the format of a model provider. */
import { useState } from "react";
import { ExportFormat } from "../../../gen/toold/v1/tool_service_pb.ts";
import { tools } from "../../api/clients.ts";
import { Icon } from "../../parts/Icon.tsx";
import { alertNow, toast } from "../../parts/say.ts";

const formats: [ExportFormat, string, string][] = [
  [ExportFormat.OPENAI, "openai", "OpenAI Chat Completions"], [ExportFormat.OPENAI_RESPONSES, "openai-responses", "OpenAI Responses"], [ExportFormat.ANTHROPIC, "anthropic", "Anthropic Messages"],
  [ExportFormat.GEMINI, "gemini", "Gemini"], [ExportFormat.MCP, "mcp", "MCP"],
];

export function Export() {
  const [format, choose] = useState(ExportFormat.OPENAI);
  const save = async () => {
    const lists: string[] = [];
    let pageToken = "", count = 0;
    try {
      do {
        const page = await tools.exportTools({ format, pageToken });
        count += page.exported.length;
        lists.push(page.tools.trim().slice(1, -1).trim());
        pageToken = page.nextPageToken;
      } while (pageToken);
    } catch (e) {
      toast("The tools were not exported.");
      return alertNow(`The tools were not exported: ${String(e)}`);
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`[${lists.filter(Boolean).join(",\n")}]\n`], { type: "application/json" }));
    link.download = `tools-${formats.find(([f]) => f === format)?.[1]}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
    toast(`${count} tools saved as ${link.download}.`);
  };
  return (
    <span className="rowx wide">
      <select className="inp auto" aria-label="Format of the export" value={format} onChange={(e) => choose(Number(e.target.value))}>
        {formats.map(([f, , name]) => <option key={f} value={f}>{name}</option>)}
      </select>
      <button className="btn" onClick={() => void save()}><Icon name="dl" small /> Export for a model</button>
    </span>
  );
}
