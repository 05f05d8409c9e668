"""The client for asyncio. It has the methods of toold.Client, as coroutines and asynchronous iterators.

    async with toold.aio.Client("127.0.0.1:7130", token) as client:
        print((await client.call("grep", {"pattern": "TODO"})).result.message)

toold.Client executes this code without an event loop.
"""
from __future__ import annotations

import inspect
import json
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Union

import grpc
import grpc.aio

from . import digest
from ._rpc import Asyncio, Retry, Transport, check_version
from .channel import Token, connect, metadata
from .errors import TooldError
from .turns import Export, Provider, Reader, TurnResult
from .v1 import admin_service_pb2_grpc as admin_rpc
from .v1 import batch_pb2 as batches
from .v1 import call_pb2 as calls
from .v1 import call_service_pb2 as pb
from .v1 import call_service_pb2_grpc as rpc
from .v1 import document_service_pb2_grpc as documents
from .v1 import event_pb2 as event
from .v1 import suspension_pb2 as suspension
from .v1 import tool_service_pb2_grpc as tools
from .v1 import turn_pb2 as turn

TERMINAL = (calls.CALL_STATUS_SUCCEEDED, calls.CALL_STATUS_FAILED, calls.CALL_STATUS_CANCELLED)
OnEvent = Callable[[event.CallEvent], Union[None, Awaitable[None]]]


class DigestMismatch(Exception):
    """The digest of a question does not match the call that contains it. Do not answer such a question."""


class Client:
    """A connection to a daemon, for the event loop in which it is made. See toold.Client."""

    def __init__(self, address: str = "127.0.0.1:7130", token: Token = "", *, credentials: grpc.ChannelCredentials | None = None,
                 patience: float = 60.0, module: Any = grpc.aio, transport: Transport = Asyncio()) -> None:
        """`module` and `transport` are for toold.Client."""
        self.channel: Any = connect(address, credentials, token, module)
        self._token, self.patience, self._transport, self._checked = token, patience, transport, False
        self.calls = rpc.CallServiceStub(self.channel)
        self.tools = tools.ToolServiceStub(self.channel)
        self.documents = documents.DocumentServiceStub(self.channel)
        self._admin = admin_rpc.AdminServiceStub(self.channel)

    @property
    def metadata(self) -> list[tuple[str, str]]:
        return metadata(self._token)

    def _retry(self, timeout: float | None) -> Retry:
        return Retry(self.patience, timeout, renews=callable(self._token))

    async def close(self) -> None:
        await self.channel.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def toolset(self, provider: Provider, *, allow: Sequence[str] = (), exclude: Sequence[str] = (), strict: bool = False,
                      own_tools: Sequence[str] = (), max_tools: int = 0, query: str = "", timeout: float | None = None) -> Toolset:
        toolset = Toolset(self, Export(provider, allow, exclude, strict, own_tools, max_tools, query))
        await toolset.refresh(timeout=timeout)
        return toolset

    def spec(self, tool: str, arguments: Any = None, *, call_id: str = "", run_id: str = "", thread_id: str = "",
             labels: Mapping[str, str] | None = None, **fields: Any) -> calls.CallSpec:
        text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
        s = calls.CallSpec(tool=tool, arguments=text, call_id=call_id or str(uuid.uuid4()), **fields)
        if run_id or thread_id or labels:
            s.run.MergeFrom(calls.Run(run_id=run_id, thread_id=thread_id, labels=labels))
        return s

    async def call(self, tool: str, arguments: Any = None, *, timeout: float | None = None, **spec: Any) -> calls.Call:
        request = pb.CallToolRequest(spec=self.spec(tool, arguments, **spec))
        request.wait.FromSeconds(300)
        retry = self._retry(timeout)
        while True:
            call: calls.Call = (await self._request(self.calls.CallTool, request, retry)).call
            if call.status in TERMINAL or call.status == calls.CALL_STATUS_SUSPENDED:
                return call

    async def describe(self, tool: str, arguments: Any = None, *, timeout: float | None = None, **spec: Any) -> pb.DescribeCallResponse:
        request = pb.DescribeCallRequest(spec=self.spec(tool, arguments, **spec))
        described: pb.DescribeCallResponse = await self.request(self.calls.DescribeCall, request, timeout=timeout)
        return described

    def execute(self, tool: str, arguments: Any = None, *, wait_for_decision: bool = False, timeout: float | None = None,
                **spec: Any) -> AsyncGenerator[event.CallEvent, None]:
        request = pb.ExecuteToolRequest(spec=self.spec(tool, arguments, **spec), wait_for_decision=wait_for_decision)
        return _events(self.frames(self.calls.ExecuteTool, request, timeout=timeout))

    def watch(self, *, follow: bool = True, cursor: str = "", after_sequence: int | None = None, timeout: float | None = None,
              **selector: Any) -> AsyncGenerator[event.Frame, None]:
        request = pb.WatchCallsRequest(follow=follow, cursor=cursor, **selector)
        if after_sequence is not None:
            request.after_sequence = after_sequence
        return self.frames(self.calls.WatchCalls, request, timeout=timeout)

    def batch(self, specs: Sequence[calls.CallSpec], *, strategy: batches.BatchStrategy = batches.BATCH_STRATEGY_SEQUENTIAL,
              wait_for_decision: bool = False, timeout: float | None = None, **batch: Any) -> AsyncGenerator[event.Frame, None]:
        batch["batch_id"] = batch.get("batch_id") or str(uuid.uuid4())
        request = pb.ExecuteBatchRequest(
            spec=batches.BatchSpec(calls=specs, strategy=strategy, **batch), wait_for_decision=wait_for_decision)
        return self.frames(self.calls.ExecuteBatch, request, timeout=timeout)

    async def get(self, call_id: str, *, timeout: float | None = None) -> calls.Call:
        call: calls.Call = (await self.request(self.calls.GetCall, pb.GetCallRequest(call_id=call_id), timeout=timeout)).call
        return call

    async def cancel(self, call_id: str, reason: str = "", wait: float = 10, *, timeout: float | None = None) -> calls.Call:
        request = pb.CancelCallRequest(call_id=call_id, reason=reason)
        request.wait.FromNanoseconds(int(wait * 1e9))
        call: calls.Call = (await self.request(self.calls.CancelCall, request, timeout=timeout)).call
        return call

    async def waiting(self, *, timeout: float | None = None, **filter: Any) -> AsyncGenerator[calls.Call, None]:
        request = pb.ListCallsRequest(statuses=[calls.CALL_STATUS_SUSPENDED], order=pb.CALL_ORDER_OLDEST_FIRST, **filter)
        if request.read_mask.paths:  # inbox and who_am_i need the id of the question
            request.read_mask.paths.append("suspension.suspension_id")
        retry = self._retry(timeout)
        while True:
            page = await self._request(self.calls.ListCalls, request, retry)
            for call in page.calls:
                yield call
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def inbox(self, *, timeout: float | None = None, **filter: Any) -> AsyncGenerator[calls.Call, None]:
        retry = self._retry(timeout)
        request = pb.WatchInboxRequest()
        request.read_mask.paths.append("call_id")
        shown: set[str] = set()
        async with aclosing(self.frames(self.calls.WatchInbox, request, timeout=retry.left(), reader=_questions)) as frames:
            async for frame in frames:
                if not frame.HasField("caught_up") or frame.cursor in shown:
                    continue
                open = set()
                async with aclosing(self.waiting(timeout=retry.left(), **filter)) as waiting:
                    async for call in waiting:
                        open.add(call.suspension.suspension_id)
                        if call.suspension.suspension_id not in shown:
                            yield call
                shown = open

    async def who_am_i(self, waiting: Iterable[calls.Call] = (), *, timeout: float | None = None) -> pb.WhoAmIResponse:
        request = pb.WhoAmIRequest(suspension_ids=[call.suspension.suspension_id for call in waiting])
        who: pb.WhoAmIResponse = await self.request(self.calls.WhoAmI, request, timeout=timeout)
        return who

    async def claim(self, call: calls.Call, seconds: float | None = None, *, release: bool = False, take_over: bool = False,
                    timeout: float | None = None) -> suspension.Claim | None:
        request = pb.ClaimSuspensionRequest(suspension_id=call.suspension.suspension_id, release=release, take_over=take_over)
        if seconds is not None:
            request.duration.FromNanoseconds(int(seconds * 1e9))
        response = await self.request(self.calls.ClaimSuspension, request, timeout=timeout)
        return response.claim if response.HasField("claim") else None

    def verify(self, call: calls.Call) -> None:
        if call.suspension.digest != digest.of_call(call):
            raise DigestMismatch(f"the question of {call.call_id} is for something else than it shows")

    async def resume(self, call: calls.Call, result: Any = None, *, arguments: Any = None, reason: str = "", wait_for_decision: bool = False,
                     decision_id: str = "", result_instead: Mapping[str, Any] | None = None,
                     timeout: float | None = None) -> AsyncGenerator[event.CallEvent, None]:
        self.verify(call)
        instead = None
        if result_instead is not None:
            fields: dict[str, Any] = {**result_instead, "data": _json(result_instead.get("data"))}
            instead = suspension.ResultInstead(**fields)
        return await self._decide(call, wait_for_decision, timeout, suspension.Decision(
            decision_id=decision_id or str(uuid.uuid4()), action=suspension.DECISION_ACTION_RESUME, result=_json(result),
            arguments=_json(arguments), reason=reason, expected_digest=call.suspension.digest, result_instead=instead))

    async def decline(self, call: calls.Call, reason: str = "", *, decision_id: str = "",
                      timeout: float | None = None) -> AsyncGenerator[event.CallEvent, None]:
        return await self._decide(call, False, timeout, suspension.Decision(
            decision_id=decision_id or str(uuid.uuid4()), action=suspension.DECISION_ACTION_CANCEL, reason=reason,
            expected_digest=call.suspension.digest))

    async def _decide(self, call: calls.Call, wait_for_decision: bool, timeout: float | None,
                      decision: suspension.Decision) -> AsyncGenerator[event.CallEvent, None]:
        request = pb.ResumeToolRequest(
            suspension_id=call.suspension.suspension_id, call_id=call.call_id, decision=decision, wait_for_decision=wait_for_decision)
        return await _first(_events(self.frames(self.calls.ResumeTool, request, timeout=timeout)))

    async def request(self, method: Any, request: Any, *, timeout: float | None = None) -> Any:
        """Sends a request with a method of a stub, such as client.documents.GetDocument, and sends it again after temporary errors. The request
        must be one that may be sent twice."""
        return await self._request(method, request, self._retry(timeout))

    async def _request(self, method: Any, request: Any, retry: Retry) -> Any:
        while True:
            try:
                await self._check(retry)
                response = await self._transport.unary(method, request, metadata=self.metadata, timeout=retry.left())
                retry.reset()
                return response
            except grpc.RpcError as e:
                pause = retry.after(TooldError.of(e))
            await self._pause(pause, retry)

    async def frames(self, method: Any, request: Any, *, timeout: float | None = None,
                     reader: Callable[[], Callable[[Any], event.Frame]] = lambda: _frame) -> AsyncGenerator[event.Frame, None]:
        """Yields the frames of a stream, and opens it again at the last cursor when it breaks. A frame with events has the cursor after them.
        `reader` returns, for each stream, a function that reads the frame of a response."""
        retry, cursor = self._retry(timeout), ""
        while True:
            again, read = False, reader()
            try:
                await self._check(retry)
                async with aclosing(self._transport.stream(method, request, metadata=self.metadata, timeout=retry.left())) as responses:
                    async for response in responses:
                        frame = read(response)
                        control = frame.WhichOneof("control")
                        if control == "heartbeat" or frame.cursor not in ("", cursor):
                            retry.reset()  # each new stream sends the other frames again
                        cursor = frame.cursor or cursor
                        _resume_after(request, cursor)
                        if control == "closing":
                            again = True
                        elif control != "heartbeat":
                            yield frame
                if not again:
                    return
                pause = retry.next()
            except grpc.RpcError as e:
                pause = retry.after(TooldError.of(e))
            await self._pause(pause, retry)

    async def _pause(self, seconds: float, retry: Retry) -> None:
        reached = retry.error is None or retry.error.retry_after is not None
        await self._transport.sleep(seconds, None if reached else partial(self._admin.GetInfo, metadata=self.metadata))

    async def _check(self, retry: Retry) -> None:
        if not self._checked:
            await check_version(self._transport, self._admin, metadata=self.metadata, timeout=retry.left())
            self._checked = True


class Toolset:
    """The tools of a model. See toold.Toolset."""

    def __init__(self, client: Client, export: Export) -> None:
        self._client, self._export = client, export

    @property
    def tools(self) -> list[Any]:
        return self._export.tools

    @property
    def guidance(self) -> str:
        return self._export.guidance

    @property
    def revision(self) -> str:
        return self._export.revision

    async def refresh(self, *, timeout: float | None = None) -> bool:
        send, export = self._client.tools.ExportTools, self._export
        retry = self._client._retry(timeout)
        request = export.request()  # the pages of a list need the same request, although the model may find tools meanwhile
        pages = [await self._client._request(send, request, retry)]
        if pages[0].not_modified:
            return False
        request.if_revision = ""
        while pages[-1].next_page_token:
            request.page_token = pages[-1].next_page_token
            page = await self._client._request(send, request, retry)
            if page.revision == pages[0].revision:
                pages.append(page)
            else:  # the tools changed between the pages
                request.page_token = ""
                pages = [await self._client._request(send, request, retry)]
        export.take(pages)
        return True

    def turn(self, message: Any, *, turn_id: str, run_id: str = "", thread_id: str = "", stop_reason: str = "", run: calls.Run | None = None,
             **fields: Any) -> Turn:
        return Turn(self._client, self._export, self._export.turn(message, turn_id, run_id, thread_id, stop_reason, run, fields))


class Turn:
    """The calls of one response of a model. See toold.Turn."""

    def __init__(self, client: Client, export: Export, spec: turn.TurnSpec) -> None:
        self.spec, self.batch_id = spec, ""
        self._client, self._export = client, export

    async def run(self, on_event: OnEvent | None = None, *, wait_for_decision: bool = False, timeout: float | None = None) -> TurnResult:
        request = pb.ExecuteTurnRequest(spec=self.spec, wait_for_decision=wait_for_decision)
        return await self._read(self._client.frames(self._client.calls.ExecuteTurn, request, timeout=timeout), on_event)

    async def get(self, wait: float = 0, *, placeholders: bool = False, late: Sequence[str] = (), timeout: float | None = None) -> TurnResult:
        request = pb.GetTurnRequest(turn_id=self.spec.turn_id, placeholders=placeholders, late_call_ids=late)
        request.wait.FromNanoseconds(int(wait * 1e9))
        return await self._read(self._client.frames(self._client.calls.GetTurn, request, timeout=timeout), None)

    async def cancel(self, reason: str = "", *, timeout: float | None = None) -> None:
        retry = self._client._retry(timeout)
        if not self.batch_id:
            await self.get(timeout=retry.left())
        await self._client._request(self._client.calls.CancelCalls, pb.CancelCallsRequest(batch_id=self.batch_id, reason=reason), retry)

    async def _read(self, frames: AsyncGenerator[event.Frame, None], on_event: OnEvent | None) -> TurnResult:
        reader = Reader(self._export)
        async with aclosing(frames):
            async for frame in frames:
                reader.read(frame)
                self.batch_id = reader.batch_id
                for e in frame.events if on_event else ():
                    shown = on_event(e)  # type: ignore[misc]
                    if inspect.isawaitable(shown):
                        await shown
        if reader.result is None:
            raise TooldError(grpc.StatusCode.INTERNAL, "the stream of the turn ended before its last frame")
        return reader.result


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value)


def _resume_after(request: Any, cursor: str) -> None:
    """Sets where the request continues when it is sent again. GetTurn has no cursor: it sends everything again."""
    if cursor and "cursor" in request.DESCRIPTOR.fields_by_name:
        request.cursor = cursor
        if isinstance(request, pb.WatchCallsRequest):
            request.ClearField("after_sequence")


def _frame(response: Any) -> event.Frame:
    frame: event.Frame = response.frame
    return frame


def _questions() -> Callable[[pb.WatchInboxResponse], event.Frame]:
    """Returns a reader of one stream of WatchInbox. Its frame is caught_up when the list of the questions is complete, and again for each later
    question. The cursor of a later change is the id of the question. It shows progress; the stream itself has no cursor."""
    complete = False

    def read(response: pb.WatchInboxResponse) -> event.Frame:
        nonlocal complete
        change = response.WhichOneof("change")
        if change == "heartbeat":
            return event.Frame(heartbeat=response.heartbeat)
        if change == "closing":
            return event.Frame(closing=response.closing)
        if change == "settled":
            return event.Frame(cursor=response.settled.suspension_id)
        if change == "waiting" and complete:
            return event.Frame(cursor=response.waiting.rights.suspension_id, caught_up=event.CaughtUp())
        if change == "caught_up":
            complete = True
            return event.Frame(caught_up=event.CaughtUp())
        return event.Frame()

    return read


async def _events(frames: AsyncGenerator[event.Frame, None]) -> AsyncGenerator[event.CallEvent, None]:
    async with aclosing(frames):
        async for frame in frames:
            for e in frame.events:
                yield e


async def _first(events: AsyncGenerator[event.CallEvent, None]) -> AsyncGenerator[event.CallEvent, None]:
    """Reads the first event now, so that a decision is sent even if the caller never reads the events."""
    head = await anext(events, None)

    async def all() -> AsyncGenerator[event.CallEvent, None]:
        async with aclosing(events):
            if head is not None:
                yield head
            async for e in events:
                yield e

    return all()
