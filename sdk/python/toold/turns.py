"""Toolsets and turns without the requests: what to ask, and how to read what comes."""
from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .v1 import call_pb2 as calls
from .v1 import event_pb2 as event
from .v1 import tool_service_pb2 as tools
from .v1 import turn_pb2 as turn

Provider = Literal["openai", "openai-responses", "anthropic", "gemini", "ai-sdk"]
"""The format of a model's tools and messages: Chat Completions, Responses, Anthropic's Messages, generateContent, the AI SDK. For the AI SDK, the
tools have the form of MCP."""

# The format of turns, of tools, and of tools in strict mode.
_FORMATS = {
    "openai": (turn.TURN_PROVIDER_OPENAI, tools.EXPORT_FORMAT_OPENAI, tools.EXPORT_FORMAT_OPENAI_STRICT),
    "openai-responses": (turn.TURN_PROVIDER_OPENAI_RESPONSES, tools.EXPORT_FORMAT_OPENAI_RESPONSES, tools.EXPORT_FORMAT_OPENAI_RESPONSES_STRICT),
    "anthropic": (turn.TURN_PROVIDER_ANTHROPIC, tools.EXPORT_FORMAT_ANTHROPIC, None),
    "gemini": (turn.TURN_PROVIDER_GEMINI, tools.EXPORT_FORMAT_GEMINI, None),
    "ai-sdk": (turn.TURN_PROVIDER_AI_SDK, tools.EXPORT_FORMAT_MCP, None),
}
MAX_INCLUDE = 1000  # ids in ExportToolsRequest.include
MAX_ID = 64  # characters of a tool's id; a model may name a tool that does not exist
SEARCH = "tool_search"


def new_turn_id() -> str:
    """Returns a new random turn id. Store it with the model's message before the turn runs."""
    return str(uuid.uuid4())


class Export:
    """The tools that a model is offered, as toold.v1.ToolService exports them."""

    def __init__(self, provider: Provider, allow: Sequence[str] = (), exclude: Sequence[str] = (), strict: bool = False,
                 own_tools: Sequence[str] = (), max_tools: int = 0, query: str = "") -> None:
        if provider not in _FORMATS:
            raise ValueError(f"provider {provider!r} is none of {', '.join(_FORMATS)}")
        for name, value in (("allow", allow), ("exclude", exclude), ("own_tools", own_tools)):
            if isinstance(value, str):
                raise TypeError(f"{name} is a string; give a list of strings, such as [{value!r}]")
        self.turn_format, plain, strictly = _FORMATS[provider]
        if strict and strictly is None:
            raise ValueError(f"{provider} has no strict mode; only openai and openai-responses have one")
        self.provider, self.strict, self.own_tools = provider, strict, list(own_tools)
        self.format = strictly if strict else plain
        self.offered = calls.OfferedTools(allow=allow, exclude=exclude) if allow or exclude else None
        self.max_tools, self.query = max_tools, query
        self.tools: list[Any] = []
        self.guidance, self.revision = "", ""
        self.recent: list[str] = []  # ids of the tools that the model has called or found, the newest first

    def request(self) -> tools.ExportToolsRequest:
        return tools.ExportToolsRequest(
            format=self.format, offered=self.offered, max_tools=self.max_tools, query=self.query,
            include=self.recent if self.max_tools else [], if_revision=self.revision)

    def take(self, pages: Sequence[tools.ExportToolsResponse]) -> None:
        """Takes all pages of one revision."""
        self.tools = [tool for page in pages for tool in json.loads(page.tools)]
        self.guidance = "\n\n".join(page.guidance for page in pages if page.guidance)
        self.revision = pages[0].revision

    def prefer(self, ids: Iterable[str]) -> None:
        """Makes the next export include these tools."""
        self.recent = list(dict.fromkeys([*ids, *self.recent]))[:MAX_INCLUDE]

    def turn(self, message: Any, turn_id: str, run_id: str, thread_id: str, stop_reason: str, run: calls.Run | None,
             fields: dict[str, Any]) -> turn.TurnSpec:
        if not turn_id:
            raise ValueError("turn_id is required; new_turn_id() makes one, and it is stored with the message")
        spec = turn.TurnSpec(
            provider=self.turn_format, message=_text(message), turn_id=turn_id, stop_reason=stop_reason, strict=self.strict,
            own_tools=self.own_tools, run=run, **fields)
        if run_id or thread_id:
            spec.run.MergeFrom(calls.Run(run_id=run_id, thread_id=thread_id))
        if self.offered:
            spec.run.agent.tools.CopyFrom(self.offered)
        return spec


def _text(message: Any) -> str:
    """Returns the JSON text of a message. Text is not changed."""
    if isinstance(message, (str, bytes)):
        return message if isinstance(message, str) else message.decode()
    try:
        return json.dumps(message)
    except TypeError as e:
        raise TypeError(f"the message is a {type(message).__name__}; give its JSON text, or the dict or list that the provider sent") from e


class Reader:
    """Reads the frames of a turn. Each stream sends all messages, so a message that a break cut off comes again."""

    def __init__(self, export: Export) -> None:
        self.export, self.batch_id = export, ""
        self.result: TurnResult | None = None
        self._searches: set[str] = set()
        self._reset([])

    def _reset(self, calls: list[turn.TurnCall]) -> None:
        self.calls, self.part = calls, ""
        self.messages: list[Any] = []

    def read(self, frame: event.Frame) -> None:
        for e in frame.events:
            self._search(e)
        control = frame.WhichOneof("control")
        if control == "turn_started":
            self.batch_id = frame.turn_started.batch_id
            self._reset(list(frame.turn_started.calls))
            self._searches.update(c.call_id for c in self.calls if c.tool == SEARCH)
            # Otherwise the found tools would soon displace the called ones from the list.
            self.export.prefer(c.tool for c in self.calls if c.tool != SEARCH and len(c.tool) <= MAX_ID)
        elif control == "turn_message":
            self.part += frame.turn_message.part
            if frame.turn_message.last:
                self.messages.append(json.loads(self.part))
                self.part = ""
        elif control == "turn_finished":
            end = frame.turn_finished
            self.result = TurnResult(self.messages, list(end.open), list(end.not_handled), end.run_blocked, self.calls, self.export.provider)

    def _search(self, e: event.CallEvent) -> None:
        """Notes the tools that a call of tool_search found."""
        if not self.export.max_tools or e.call_id not in self._searches:
            return
        try:
            found = [str(tool["id"]) for tool in json.loads(e.finished.result.data)["tools"]]
        except (ValueError, TypeError, LookupError):
            return  # the search failed, or a hook or the budget of output has changed its result
        self.export.prefer(found)


@dataclass
class TurnResult:
    """What a turn returned."""

    messages: list[Any]
    """The messages for the model, in order. Append the model's message to the history, then these, all unchanged. None while a call is open."""
    open: list[str]
    """The ids of the calls without a result."""
    not_handled: list[turn.NotHandled]
    """The calls that the client answers itself."""
    run_blocked: bool
    """A gate blocked the run: its further calls are refused until EndRun."""
    calls: list[turn.TurnCall] = field(repr=False)
    """The calls that toold ran."""
    provider: Provider = field(repr=False)

    def merge(self, answers: Sequence[Any]) -> list[Any]:
        """Returns the messages with the client's own answers at their positions.

        `answers` has one entry for each entry of not_handled, in the same order: for Anthropic a block `tool_result`, for Gemini a part
        `functionResponse`, for other providers a message.
        """
        if len(answers) != len(self.not_handled):
            raise ValueError(f"{len(self.not_handled)} calls need an answer of the client, and {len(answers)} answers are given")
        inner = {"anthropic": "content", "gemini": "parts"}.get(self.provider)
        first = self.messages[0] if self.messages else {}
        answered = first.get(inner, []) if inner else self.messages
        if len(answered) < len(self.calls):
            raise ValueError(f"the turn has no messages yet, because calls are open: {', '.join(self.open)}")
        at = sorted([*zip((c.index for c in self.calls), answered), *zip((n.index for n in self.not_handled), answers)], key=lambda p: p[0])
        merged = [answer for _, answer in at] + answered[len(self.calls):]
        if not inner or not merged:
            return merged
        return [{"role": "user", **first, inner: merged}, *self.messages[1:]]
