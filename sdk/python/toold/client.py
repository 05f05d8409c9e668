"""A client that calls tools, executes the turns of a model, answers questions and watches calls.

    client = Client("127.0.0.1:7130", token)
    print(client.call("grep", {"pattern": "TODO"}).result.message)

After a broken connection or a restart of the daemon, requests are sent again, and streams continue at their last cursor and deliver no event
twice. Methods raise a TooldError. `timeout` is the time limit of a method with its retries, in seconds; it does not cancel calls that run.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import grpc

from . import aio
from ._rpc import Blocking, iterate, run as run_now
from .aio import DigestMismatch as DigestMismatch
from .channel import Token
from .turns import Provider, TurnResult
from .v1 import batch_pb2 as batches
from .v1 import call_pb2 as calls
from .v1 import call_service_pb2 as pb
from .v1 import event_pb2 as event
from .v1 import suspension_pb2 as suspension
from .v1 import turn_pb2 as turn


class Client:
    """A connection to a daemon. Several threads may use it. The generated stubs are `calls`, `tools` and `documents`; send their requests with
    `request`, or pass `metadata` to their methods."""

    def __init__(self, address: str = "127.0.0.1:7130", token: Token = "", *, credentials: grpc.ChannelCredentials | None = None,
                 patience: float = 60.0) -> None:
        """`token` may be a function that returns the token for each request. A request or stream that ends because its token expired is then
        sent again with the next token. `patience` is how many seconds requests and streams try to reach the daemon before they raise an error. For `address` and
        `credentials`, see toold.channel.connect."""
        self._inner = aio.Client(address, token, credentials=credentials, patience=patience, module=grpc, transport=Blocking())
        self.channel = self._inner.channel
        self.calls, self.tools, self.documents = self._inner.calls, self._inner.tools, self._inner.documents
        self.spec, self.verify = self._inner.spec, self._inner.verify

    @property
    def metadata(self) -> list[tuple[str, str]]:
        return self._inner.metadata

    def close(self) -> None:
        self.channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def toolset(self, provider: Provider, *, allow: Sequence[str] = (), exclude: Sequence[str] = (), strict: bool = False,
                own_tools: Sequence[str] = (), max_tools: int = 0, query: str = "", timeout: float | None = None) -> Toolset:
        """Returns the tools for a model.

        - `allow` and `exclude` are globs of tool ids. toold refuses calls of other tools in the turns of this toolset.
        - `strict` uses the strict mode of OpenAI. toold removes the nulls that this mode adds to arguments.
        - `own_tools` names tools that the client runs itself. Add them to the request; their calls are in TurnResult.not_handled.
        - `max_tools` is the largest number of tools, `tool_search` included. If more match, the model finds the others with `tool_search`. 0 means no limit.
        - `query` says what the tools are for, such as the task of the agent. Tools that match it are preferred. It needs max_tools.
        """
        return Toolset(run_now(self._inner.toolset(
            provider, allow=allow, exclude=exclude, strict=strict, own_tools=own_tools, max_tools=max_tools, query=query, timeout=timeout)))

    def call(self, tool: str, arguments: Any = None, *, timeout: float | None = None, **spec: Any) -> calls.Call:
        """Runs a tool and returns the toold.v1.Call when it has ended or is suspended. `spec` has the parameters of Client.spec."""
        return run_now(self._inner.call(tool, arguments, timeout=timeout, **spec))

    def describe(self, tool: str, arguments: Any = None, *, timeout: float | None = None, **spec: Any) -> pb.DescribeCallResponse:
        """Returns what a call would do, and in `outcome` what the gates would decide: VERDICT_ACTION_SUSPEND means that it would wait for a
        person. Nothing runs."""
        return run_now(self._inner.describe(tool, arguments, timeout=timeout, **spec))

    def execute(self, tool: str, arguments: Any = None, *, wait_for_decision: bool = False, timeout: float | None = None,
                **spec: Any) -> Iterator[event.CallEvent]:
        """Runs a tool and yields its events, up to the terminal event, or up to a suspension unless `wait_for_decision` is set."""
        return iterate(self._inner.execute(tool, arguments, wait_for_decision=wait_for_decision, timeout=timeout, **spec))

    def watch(self, *, follow: bool = True, cursor: str = "", after_sequence: int | None = None, timeout: float | None = None,
              **selector: Any) -> Iterator[event.Frame]:
        """Yields the frames of a call (call_id=), or of all calls of a batch_id=, run_id=, thread_id= or namespace=True."""
        return iterate(self._inner.watch(follow=follow, cursor=cursor, after_sequence=after_sequence, timeout=timeout, **selector))

    def batch(self, specs: Sequence[calls.CallSpec], *, strategy: batches.BatchStrategy = batches.BATCH_STRATEGY_SEQUENTIAL,
              wait_for_decision: bool = False, timeout: float | None = None, **batch: Any) -> Iterator[event.Frame]:
        """Runs the calls of a model turn and yields the frames. The last frame, `batch_finished`, has a result for each call."""
        return iterate(self._inner.batch(specs, strategy=strategy, wait_for_decision=wait_for_decision, timeout=timeout, **batch))

    def get(self, call_id: str, *, timeout: float | None = None) -> calls.Call:
        return run_now(self._inner.get(call_id, timeout=timeout))

    def cancel(self, call_id: str, reason: str = "", wait: float = 10, *, timeout: float | None = None) -> calls.Call:
        """Requests the end of a call, and waits for it at most `wait` seconds."""
        return run_now(self._inner.cancel(call_id, reason, wait, timeout=timeout))

    def waiting(self, *, timeout: float | None = None, **filter: Any) -> Iterator[calls.Call]:
        """Yields the calls that wait for a decision, oldest first. `filter` has fields of toold.v1.ListCallsRequest, such as run_id."""
        return iterate(self._inner.waiting(timeout=timeout, **filter))

    def inbox(self, *, timeout: float | None = None, **filter: Any) -> Iterator[calls.Call]:
        """Yields the calls that wait for a decision, then each call that begins to wait, without end. It follows the stream WatchInbox, so it
        needs no right to watch the namespace. A call comes once for each of its questions."""
        return iterate(self._inner.inbox(timeout=timeout, **filter))

    def who_am_i(self, waiting: Iterable[calls.Call] = (), *, timeout: float | None = None) -> pb.WhoAmIResponse:
        """Returns the principal of the client, and in `tickets` what it may do with the open question of each call in `waiting`."""
        return run_now(self._inner.who_am_i(waiting, timeout=timeout))

    def claim(self, call: calls.Call, seconds: float | None = None, *, release: bool = False, take_over: bool = False,
              timeout: float | None = None) -> suspension.Claim | None:
        """Says that the principal of the client looks at the open question of a call, for `seconds` (5 minutes by default). Claim it again to
        extend the time. A claim prevents no decision. `release` ends the claim, and returns None."""
        return run_now(self._inner.claim(call, seconds, release=release, take_over=take_over, timeout=timeout))

    def resume(self, call: calls.Call, result: Any = None, *, arguments: Any = None, reason: str = "", wait_for_decision: bool = False,
               decision_id: str = "", result_instead: Mapping[str, Any] | None = None, timeout: float | None = None) -> Iterator[event.CallEvent]:
        """Approves exactly what the call shows, or answers its question with `result`. Returns an iterator over the events that follow. It raises
        DigestMismatch when the digest of the question does not match the call.

        `result_instead`, with the keys `data`, `message` and `error`, becomes the result of the call, and the tool does not run. The ticket must
        give this right. With `error`, which needs a message, the call fails."""
        return iterate(run_now(self._inner.resume(
            call, result, arguments=arguments, reason=reason, wait_for_decision=wait_for_decision, decision_id=decision_id,
            result_instead=result_instead, timeout=timeout)))

    def decline(self, call: calls.Call, reason: str = "", *, decision_id: str = "", timeout: float | None = None) -> Iterator[event.CallEvent]:
        """Declines the open question of a call. Returns an iterator over the events that follow."""
        return iterate(run_now(self._inner.decline(call, reason, decision_id=decision_id, timeout=timeout)))

    def request(self, method: Any, request: Any, *, timeout: float | None = None) -> Any:
        """Sends a request with a method of a stub, such as client.documents.GetDocument, and sends it again after temporary errors. The request
        must be one that may be sent twice."""
        return run_now(self._inner.request(method, request, timeout=timeout))


class Toolset:
    """The tools of a model, from Client.toolset."""

    def __init__(self, inner: aio.Toolset) -> None:
        self._inner = inner

    @property
    def tools(self) -> list[Any]:
        """The list for the member `tools` of a request to the provider."""
        return self._inner.tools

    @property
    def guidance(self) -> str:
        """Text for the system prompt; may be empty."""
        return self._inner.guidance

    @property
    def revision(self) -> str:
        """Changes when anything in tools or guidance changes."""
        return self._inner.revision

    def refresh(self, *, timeout: float | None = None) -> bool:
        """Reads the tools again if they have changed. Returns True if they have. Call it before each request to the model."""
        return run_now(self._inner.refresh(timeout=timeout))

    def turn(self, message: Any, *, turn_id: str, run_id: str = "", thread_id: str = "", stop_reason: str = "", run: calls.Run | None = None,
             **fields: Any) -> Turn:
        """Returns the turn of a model's message, which Turn.run executes.

        - `message` is JSON text, which is sent unchanged, or what the provider's JSON contains: for Chat Completions `choices[0].message`, for
          Responses the list `output`, for Anthropic the message, for Gemini `candidates[0].content`.
        - `turn_id` has 16 to 64 characters and is unique forever; new_turn_id() makes one. After a crash, the same id and message attach to
          the turn, and nothing runs twice.
        - `stop_reason` says why the response ended, such as `length`. Anthropic's message contains it.
        - `run` has further fields of the run, and `fields` those of toold.v1.TurnSpec, such as fail_fast.
        """
        return Turn(self._inner.turn(message, turn_id=turn_id, run_id=run_id, thread_id=thread_id, stop_reason=stop_reason, run=run, **fields))


class Turn:
    """The calls of one response of a model, from Toolset.turn."""

    def __init__(self, inner: aio.Turn) -> None:
        self._inner = inner

    @property
    def spec(self) -> turn.TurnSpec:
        return self._inner.spec

    def run(self, on_event: Callable[[event.CallEvent], None] | None = None, *, wait_for_decision: bool = False,
            timeout: float | None = None) -> TurnResult:
        """Runs the calls and returns the messages for the model. Each event goes to on_event once. After a broken connection or a restart of the
        daemon it attaches again. When a call waits for a person, it returns without messages, unless wait_for_decision is set."""
        return run_now(self._inner.run(on_event, wait_for_decision=wait_for_decision, timeout=timeout))

    def get(self, wait: float = 0, *, placeholders: bool = False, late: Sequence[str] = (), timeout: float | None = None) -> TurnResult:
        """Returns the results of the turn, which was executed before. It waits at most `wait` seconds for calls without a result.

        With `placeholders`, these calls get a marked text; the messages of a later get replace all of these messages. With `late`, the ids of such
        calls, the result has one user message with their results, for a history that must not change.
        """
        return run_now(self._inner.get(wait, placeholders=placeholders, late=late, timeout=timeout))

    def cancel(self, reason: str = "", *, timeout: float | None = None) -> None:
        """Cancels all open calls of the turn. It does not wait for their end."""
        run_now(self._inner.cancel(reason, timeout=timeout))
