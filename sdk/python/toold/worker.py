"""A worker offers Python functions as tools of a daemon.

    worker = Worker("greeter", address="127.0.0.1:7130", token=token)

    @worker.tool(read_only=True, observe=True)
    def greet(call, name: str) -> str:
        "Greets a person."
        return f"Hello, {name}!"

    worker.run()

The worker dials the daemon, and dials again when the connection breaks. Running calls continue meanwhile. Each call runs in its own thread.
"""
from __future__ import annotations

import inspect
import io
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc

from . import schema
from ._rpc import Blocking, check_version, run as run_now
from .channel import Token, connect, metadata
from .errors import TooldError
from .v1 import admin_service_pb2_grpc as admin
from .v1 import assessment_pb2 as assessment
from .v1 import event_pb2 as event
from .v1 import result_pb2 as result
from .v1 import suspension_pb2 as suspension
from .v1 import tool_service_pb2 as tools
from .v1 import worker_service_pb2 as pb
from .v1 import worker_service_pb2_grpc as rpc


MAX_MESSAGE = (4 << 20) - 1024  # bytes; a larger message would break the connection, and again each time it is repeated

MAX_PANIC = 4000  # characters of a traceback that the worker sends for the log of the daemon
PROGRESS = {s: event.ProgressStatus.Value("PROGRESS_STATUS_" + s.upper()) for s in ("pending", "running", "done", "failed", "cancelled")}


def readable(text: str) -> str:
    """Replaces unpaired surrogates, which cannot be encoded as UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Fail(Exception):
    """An error result that the model reads. The tool ran to its end, unless `aborted` is set. `reason` is the tool's own code."""

    def __init__(self, message: str, reason: str = "", code: result.ErrorCode = result.ERROR_CODE_EXECUTION_FAILED, aborted: bool = False) -> None:
        super().__init__(message)
        message = readable(str(message))
        self.message, self.reason, self.code, self.aborted = message, reason, code, aborted


class Question(Exception):
    """Suspends the call until a person answers. Then the function starts again from its beginning, and Call.answer has the answer."""

    def __init__(self, message: str, answer: Any = None, action: str = "input", parameters: Any = None, default: Any = None, **ticket: Any) -> None:
        """`answer` is the JSON Schema of the answer, and `default` the answer when nobody gives one in time."""
        super().__init__(message)
        text: Callable[[Any], str] = lambda v: "" if v is None else json.dumps(v)
        self.ticket = pb.WorkerTicket(
            action=action, message=message, response_schema=text(answer), parameters=text(parameters), default_result=text(default), **ticket)


class Continue(Exception):
    """The work continues elsewhere. While the call waits for it, neither worker nor daemon holds resources, and both may restart. toold calls
    the tool's `poll` every `poll_after` seconds, or Worker.complete ends the operation. The call fails after `expires_in` seconds (default: a day)."""

    def __init__(self, operation: str, message: str = "", poll_after: float = 0.0, expires_in: float = 0.0) -> None:
        super().__init__(operation)
        self.operation, self.message, self.poll_after, self.expires_in = operation, readable(message), poll_after, expires_in


class NoOperation(Exception):
    """The pool has no such operation, or the operation has ended."""


class CallCancelled(Exception):
    """The call must stop: it was cancelled, its time is over, or the daemon has given it up."""

    def __init__(self, message: str, code: result.ErrorCode = result.ERROR_CODE_CANCELLED) -> None:
        super().__init__(message)
        self.code = code


class LeaseLost(CallCancelled):
    """The daemon has given up this call and ignores its result."""


class NoInput(Exception):
    """The call accepts no input."""


class NotRun(Exception):
    """Raised by a reconcile function when the attempt changed nothing. The call then runs again."""


class Call:
    """One attempt of a call, or a call that has not started yet. `info` is the toold.v1.WorkerCall; its fields are also attributes of Call."""

    def __init__(self, info: pb.WorkerCall, job: Any = None) -> None:
        self.info, self._job = info, job
        self.cancelled: threading.Event = job.stop if job else threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.info, name)

    def check(self) -> None:
        """Raises CallCancelled when the call must stop."""
        if self.cancelled.is_set():
            raise self._job.cause

    def sleep(self, seconds: float) -> None:
        """Sleeps, and raises CallCancelled as soon as the call must stop."""
        self.cancelled.wait(seconds)
        self.check()

    @property
    def resumed(self) -> bool:
        """True if this attempt started because of an answer."""
        return bool(self.info.HasField("resume"))

    @property
    def answer(self) -> Any:
        """The answer to the call's question, or None."""
        text = self.info.resume.result
        return json.loads(text) if text else None

    def document(self, scope: int, key: str) -> Any:
        """Returns the value of one of the tool's documents, or None."""
        for d in self.info.documents:
            if d.scope == scope and d.key == key:
                return json.loads(d.value)
        return None

    def progress(self, fraction: float = 0.0, message: str = "", loaded: int = 0, total: int = 0, status: str = "running") -> None:
        """Reports how far the tool is, as a fraction from 0 to 1 or as amounts in a unit that the tool chooses. 0 means unknown. status is
        pending, running, done, failed or cancelled; it is not the status of the call."""
        if status not in PROGRESS:
            raise ValueError(f"status is {status!r}; want one of {', '.join(PROGRESS)}")
        if not 0 <= fraction <= 1 or loaded < 0 or total < 0:
            raise ValueError("fraction must be between 0 and 1, and loaded and total must not be negative")
        self._report(progress=event.Progress(
            status=PROGRESS[status], fraction=fraction, message=readable(message), loaded=loaded, total=total))

    def activity(self, id: str, type: str, content: Any) -> None:
        self._report(activity_snapshot=event.ActivitySnapshot(activity_id=id, activity_type=type, content=json.dumps(content)))

    def activity_delta(self, id: str, patch: Sequence[Mapping[str, Any]]) -> None:
        """Changes an activity with a list of RFC 6902 (JSON Patch) operations."""
        self._report(activity_delta=event.ActivityDelta(activity_id=id, patch=json.dumps(patch)))

    def output(self, data: str | bytes, stream: str = "stdout") -> None:
        data = data.encode() if isinstance(data, str) else data
        for i in range(0, len(data), 512 << 10):
            self._report(output=event.Output(stream=stream, data=data[i:i + (512 << 10)]))

    def save_checkpoint(self, data: bytes) -> None:
        """Stores bytes for the next attempt (`checkpoint`). When save_checkpoint returns, the bytes are in the journal."""
        if self._job:
            self._job.save(checkpoint=data)

    def save_artifact(self, name: str, data: bytes, mime_type: str = "application/octet-stream") -> str:
        """Stores data that is too large for a result, at most 4 MiB, and returns the stored name."""
        return self._job.save(artifact=pb.WorkerArtifact(name=name, mime_type=mime_type, data=data)) if self._job else name

    def input(self) -> Input:
        """Lets clients send input to the call from now on (SendInput, toold input), and returns a file: `for line in call.input()`.

        The file returns each byte once and in order, also after a broken connection. Reading waits for input and raises CallCancelled when the
        call must stop. close() tells the daemon that the tool needs no more input. input() may be called once per attempt. The daemon buffers up
        to 64 KiB of unread input."""
        if self._job is None:
            raise NoInput("the call takes no input")  # in a unit test of the function
        return Input(Typed(self._job))

    def _report(self, **report):
        if self._job:
            m = pb.ConnectRequest(report=pb.WorkerReport(lease_id=self._job.lease, **report))
            if m.ByteSize() > MAX_MESSAGE:
                return self._job.worker.log(f"report not sent: it has {m.ByteSize()} bytes; at most {MAX_MESSAGE} are taken")
            self._job.say(m)


def success(value: Any) -> pb.WorkerResult:
    """Returns a successful result with this data. It returns a WorkerResult unchanged."""
    if isinstance(value, pb.WorkerResult):
        return value
    return pb.WorkerResult(
        status=result.RESULT_STATUS_SUCCESS, data=readable(json.dumps(value, ensure_ascii=False, allow_nan=False)),
        message=readable(value) if isinstance(value, str) else "")


def outcome(value: Any) -> pb.WorkerResult:
    """Converts the value that a function returned, or the answer that it raised, to a result."""
    if isinstance(value, Question):
        return pb.WorkerResult(status=result.RESULT_STATUS_PENDING, message=value.ticket.message, ticket=value.ticket)
    if isinstance(value, Continue):
        o = pb.WorkerOperation(operation_id=value.operation)
        if value.poll_after:
            o.poll_after.FromNanoseconds(int(value.poll_after * 1e9))
        if value.expires_in:
            o.expires_in.FromNanoseconds(int(value.expires_in * 1e9))
        return pb.WorkerResult(status=result.RESULT_STATUS_PENDING, message=value.message, operation=o)
    if isinstance(value, Fail):
        return pb.WorkerResult(status=result.RESULT_STATUS_ERROR, error=result.ToolError(
            code=value.code, reason=value.reason, message=value.message, aborted=value.aborted))
    return success(value)


def aborted(code, message):
    return pb.WorkerResult(status=result.RESULT_STATUS_ERROR, error=result.ToolError(code=code, message=message, aborted=True))


def effects(read_only=False, observe=False, concurrency_safe=False, open_world=False, resources=()):
    out = assessment.Assessment(concurrency_safe=concurrency_safe, open_world=open_world, resources=[
        one if isinstance(one, assessment.Resource) else assessment.Resource(**one) for one in resources])
    if read_only:
        out.mutability, out.safety = assessment.MUTABILITY_READ_ONLY, assessment.SAFETY_READ_ONLY
    if observe:
        out.tier = assessment.TIER_OBSERVE
    return out


def description_of(value):
    if isinstance(value, assessment.Description):
        return value
    return assessment.Description(title=readable(value)) if isinstance(value, str) else assessment.Description(**value)


class NoToken(Exception):
    """The function that returns tokens failed."""


class Worker:
    """Serves tools. Add all tools before run()."""

    def __init__(self, pool: str, *, address: str = "127.0.0.1:7130", token: Token = "", credentials: grpc.ChannelCredentials | None = None,
                 name: str = "", version: str = "", labels: Mapping[str, str] | None = None, max_calls: int = 16, drain_time: float = 30.0,
                 log: Callable[[str], Any] = lambda text: print(text, file=sys.stderr)) -> None:
        """`token` may be a function that returns the token of each connection, for tokens that expire or are rotated. A worker that the daemon has
        admitted once connects again when its token ends, until the function returns a valid one."""
        self.pool, self.address, self.token, self.credentials = pool, address, token, credentials
        self.name = name or f"{socket.gethostname()}/{os.getpid()}"
        self.version, self.labels, self.max_calls, self.drain_time, self.log = version, labels or {}, max_calls, drain_time, log
        self.tools: dict[str, Any] = {}
        self.jobs: dict[str, Any] = {}
        self.lease, self.last, self.input = 15.0, "", False
        self.out: queue.Queue[Any] = queue.Queue(1024)  # messages to send; they survive a broken connection
        self.attempts: dict[Any, int]
        self.store, self.epoch, self.attempts = "", 0, {}  # the daemon's store, its highest epoch, and the newest attempt of each call
        self.completing: dict[tuple[str, str], Any] = {}  # (call, operation): (message, queue of answers)
        self.lock = threading.RLock()
        self.stopping = threading.Event()
        self.over = threading.Event()

    def tool(self, function: Callable[..., Any] | None = None, *, id: str | None = None, description: str | None = None,
             parameters: Mapping[str, Any] | None = None, result_schema: Mapping[str, Any] | None = None, read_only: bool = False,
             observe: bool = False, concurrency_safe: bool = False, open_world: bool = False, idempotent: bool = False,
             ask_on_doubt: bool = False, timeout: float | None = None, documents: Sequence[Any] = (),
             reconcile: Callable[..., Any] | None = None, abandon: Callable[..., Any] | None = None, poll: Callable[..., Any] | None = None,
             validate: Callable[..., Any] | None = None, assess: Callable[..., Any] | None = None, mildest: Any = None,
             describe: Callable[..., Any] | None = None, **descriptor: Any) -> Any:
        """Offers a function as a tool. Its first parameter is the Call. The other parameters are the arguments, and their types define the schema.
        If `parameters` is a schema, the function gets the arguments as one dict. Without `read_only` and `observe` toold assumes that the tool
        changes things and that each call needs an approval.

        Three functions with the same parameters may examine a call before it runs. They must not change anything:
        - `validate` raises Fail when the arguments are wrong. It is called again before the function runs.
        - `assess` returns what the call would do, such as {"read_only": True}, if that differs from the tool's own settings. It cannot be
          milder than `mildest`. With {"resources": [{"kind": "room", "id": "lisbon"}]} the call runs beside calls that use other things.
        - `describe` tells approvers what the call would do: a title, or a dict of toold.v1.Description."""
        if function is None:
            return lambda f: self.tool(
                f, id=id, description=description, parameters=parameters, result_schema=result_schema, read_only=read_only,
                observe=observe, concurrency_safe=concurrency_safe, open_world=open_world, idempotent=idempotent,
                ask_on_doubt=ask_on_doubt, timeout=timeout, documents=documents, reconcile=reconcile, abandon=abandon, poll=poll,
                validate=validate, assess=assess, mildest=mildest, describe=describe, **descriptor)
        id = id or function.__name__
        if id in self.tools:
            raise ValueError(f"tool {id} is defined twice")
        if parameters is None:
            parameters, bind = schema.of_function(function)
            taking = lambda f: f and (lambda call, arguments: f(call, **bind(arguments)))
        else:
            taking = lambda f: f
        check, run = taking(validate), taking(function)

        def valid(call, arguments):
            try:
                check(call, arguments)
            except Fail as wrong:
                if wrong.code == result.ERROR_CODE_EXECUTION_FAILED:
                    wrong.code = result.ERROR_CODE_INVALID_ARGUMENTS
                wrong.aborted = True
                raise

        def execute(call, arguments):
            if check:
                valid(call, arguments)  # a call without an approval may not have been validated yet
            return run(call, arguments)

        d = tools.Descriptor(
            id=id, description=inspect.getdoc(function) or "" if description is None else description, parameters=json.dumps(parameters),
            result_schema=json.dumps(result_schema) if result_schema else "", idempotent=idempotent,
            effects=effects(read_only, observe, concurrency_safe, open_world), **descriptor)
        assessed = lambda value: value if isinstance(value, assessment.Assessment) else effects(**{"open_world": open_world, **value})
        if mildest is not None:
            d.mildest.CopyFrom(assessed(mildest))
        if ask_on_doubt:
            d.on_doubt = tools.ON_DOUBT_ASK
        if timeout:
            d.timeouts.attempt.FromNanoseconds(int(timeout * 1e9))
        asks = {pb.WORK_KIND_RECONCILE: reconcile, pb.WORK_KIND_ABANDON: abandon, pb.WORK_KIND_POLL: poll}
        answers = [k for k, f in asks.items() if f]
        about, tells = taking(assess), taking(describe)
        questions = {
            pb.WORKER_QUESTION_KIND_VALIDATE: check and valid,
            pb.WORKER_QUESTION_KIND_ASSESS: about and (lambda call, arguments: {"assessment": assessed(about(call, arguments))}),
            pb.WORKER_QUESTION_KIND_DESCRIBE: tells and (lambda call, arguments: {"description": description_of(tells(call, arguments))}),
        }
        questions = {kind: f for kind, f in questions.items() if f}
        offer = pb.WorkerTool(descriptor=d, answers=answers, documents=documents, questions=list(questions))
        self.tools[id] = (offer, execute, asks, questions)
        return function

    def complete(self, call_id: str, operation: str, value: Any = None, timeout: float | None = None) -> None:
        """Ends an operation with the data of its result, or with a Fail. When complete returns, the outcome is stored. It waits for a connection and
        until the daemon knows the operation. Any worker of the pool may call it. Raises NoOperation, or TimeoutError after `timeout` seconds."""
        m = pb.ConnectRequest(complete=pb.WorkerComplete(call_id=call_id, operation_id=operation, result=outcome(value)))
        if m.ByteSize() > MAX_MESSAGE:
            raise ValueError(f"a result of {m.ByteSize()} bytes; at most {MAX_MESSAGE} are taken")
        answers: queue.Queue[Any] = queue.Queue()
        end = time.monotonic() + (timeout or float("inf"))
        with self.lock:
            self.completing[call_id, operation] = (m, answers)
        try:
            self._queue(m, end)
            while True:
                try:
                    answer = answers.get(timeout=0.2)
                except queue.Empty:
                    self._in_time(end)
                    continue
                if not answer.error:
                    return
                if not answer.retryable:
                    raise NoOperation(answer.error)
                time.sleep(0.2)
                self._queue(m, end)
        finally:
            with self.lock:
                self.completing.pop((call_id, operation), None)

    def _in_time(self, end):
        if self.over.is_set():
            raise RuntimeError("the worker stops")
        if time.monotonic() > end:
            raise TimeoutError("the operation was not completed in time")

    def _queue(self, m, end=float("inf")):
        while True:
            try:
                return self.out.put(m, timeout=0.2)
            except queue.Full:
                self._in_time(end)

    def stop(self) -> None:
        """Accepts no more calls, and makes run() return when the running calls have ended."""
        self.stopping.set()

    def run(self) -> None:
        """Serves until stop() or, in the main thread, SIGTERM or SIGINT. Raises TooldError when the daemon will never accept the worker."""
        if threading.current_thread() is threading.main_thread():
            for s in (signal.SIGTERM, signal.SIGINT):
                signal.signal(s, lambda *_: self.stop())
        pause, checked = 0.1, False
        with connect(self.address, self.credentials, self.token) as channel:
            stub = rpc.WorkerServiceStub(channel)
            while True:
                began = time.monotonic()
                try:
                    if not checked:
                        run_now(check_version(Blocking(), admin.AdminServiceStub(channel), metadata=self._metadata(), timeout=30))
                    checked = True
                    if self._connect(stub):
                        break
                except TooldError:
                    self._end()
                    raise
                except grpc.RpcError as e:
                    renews = callable(self.token) and self.last and e.code() == grpc.StatusCode.UNAUTHENTICATED
                    if not renews and e.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED,
                                                   grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED):
                        self._end()
                        raise TooldError.of(e) from e
                    self.log(f"connection lost: {e.code().name}: {e.details()}")
                except NoToken as e:
                    self.log(f"connection lost: no token: {e.__cause__}")
                self._away()
                if self.stopping.is_set() and not self.jobs:
                    break
                pause = 0.1 if time.monotonic() - began > 10 else min(2 * pause, 5)
                self.stopping.wait(pause) if not self.stopping.is_set() else time.sleep(pause)
        self._end()

    def _consider(self, q, connection, end):
        """Answers a question about a call that has not started yet."""
        call, answer = Call(q.call), pb.WorkerAnswer(question_id=q.question_id)
        try:
            value = self.tools[call.tool][3][q.kind](call, json.loads(call.arguments))
            answer.MergeFrom(pb.WorkerAnswer(**(value or {})))
            if answer.ByteSize() > MAX_MESSAGE:
                raise ValueError(f"an answer of {answer.ByteSize()} bytes; at most {MAX_MESSAGE} are taken")
        except Fail as wrong:
            answer.error.CopyFrom(outcome(wrong).error)
        except BaseException as e:
            self.log(f"{call.tool}: {traceback.format_exc()}")
            answer = pb.WorkerAnswer(question_id=q.question_id, error=result.ToolError(
                code=result.ERROR_CODE_INTERNAL, message=f"The tool failed internally: {type(e).__name__}"))
        try:
            self.out.put((connection, pb.ConnectRequest(answer=answer)), timeout=max(0, end - time.monotonic()))
        except queue.Full:
            pass

    def _end(self):
        self.over.set()
        for job in list(self.jobs.values()):
            job.drop(LeaseLost("the worker stops"))

    def _metadata(self):
        try:
            return metadata(self.token)
        except Exception as e:
            raise NoToken from e

    def _register(self):
        return pb.ConnectRequest(register=pb.WorkerRegister(
            pool=self.pool, name=self.name, version=self.version, labels=self.labels, max_calls=self.max_calls,
            tools=[self.tools[id][0] for id in sorted(self.tools)], held=list(self.jobs), previous=self.last))

    def _connect(self, stub):
        """Serves over one connection. Returns True when the worker has drained."""
        up = threading.Event()  # registered
        down = threading.Event()
        drained = threading.Event()
        heard = [time.monotonic()]

        def requests():
            yield self._register()
            while not up.wait(0.05):
                if down.is_set():
                    return
            last, drains, late = time.monotonic(), False, None
            while not down.is_set():
                if self.stopping.is_set() and not drains:
                    drains, late = True, time.monotonic() + self.drain_time
                    yield pb.ConnectRequest(drain=pb.WorkerDrain())
                if drains and not self.jobs and self.out.empty():
                    drained.set()
                    return
                if late and time.monotonic() > late:
                    late = None
                    for job in list(self.jobs.values()):
                        job.cancel(CallCancelled("the worker stops", result.ERROR_CODE_INTERRUPTED))
                now = time.monotonic()
                if now - heard[0] > self.lease:
                    responses.cancel()
                    return
                if now - last > self.lease / 3:
                    last = now
                    yield pb.ConnectRequest(heartbeat=pb.WorkerHeartbeat())
                try:
                    m = self.out.get(timeout=min(0.05, self.lease / 4))
                except queue.Empty:
                    continue
                if not isinstance(m, tuple):
                    yield m
                elif m[0] == self.last:  # an answer must go over the connection that asked
                    yield m[1]

        responses = stub.Connect(requests(), metadata=self._metadata())
        try:
            for m in responses:
                heard[0] = time.monotonic()
                self._take(m)
                up.set()
        finally:
            down.set()
        return drained.is_set()

    def _take(self, m):
        kind = m.WhichOneof("message")
        if kind == "registered":
            self._registered(m.registered)
        elif kind == "start":
            job = Job(self, m.start)
            with self.lock:
                self.jobs[job.lease] = job
            job.admitted = self._admits(m.start)
            threading.Thread(target=job.perform, daemon=True).start()
        elif kind == "question":
            end = time.monotonic() + m.question.within.ToNanoseconds() / 1e9
            threading.Thread(target=self._consider, args=[m.question, self.last, end], daemon=True).start()
        elif kind == "completed":
            with self.lock:
                _, answers = self.completing.get((m.completed.call_id, m.completed.operation_id), (None, None))
            if answers:
                answers.put(m.completed)
        elif kind in ("cancel", "lost", "ack", "input"):
            part = getattr(m, kind)
            job = self.jobs.get(part.lease_id)
            if job is None:
                return
            if kind == "cancel":
                job.cancel(CallCancelled(part.message, part.code))
            elif kind == "lost":
                job.drop(LeaseLost("the daemon gave the call up"))
            elif kind == "input":
                job.given(part)
            else:
                job.acknowledged(part)

    def _admits(self, start):
        """Refuses work from a daemon that has lost its store to another daemon: its epoch or the attempt is lower than one already seen."""
        if start.epoch == 0:  # an older daemon sends no epoch
            return True
        call = (start.call.namespace, start.call.call_id)
        if start.epoch < self.epoch or start.call.attempt < self.attempts.get(call, 0):
            self.log(f"call {start.call.call_id} not started: another daemon now owns the store of the requesting daemon")
            return False
        if len(self.attempts) >= 1 << 14:
            self.attempts = {}
        self.epoch, self.attempts[call] = start.epoch, start.call.attempt
        return True

    def _registered(self, r):
        for no in r.refused:
            self.log(f"tool {no.tool} is not served: {no.reason}: {no.message}")
        self.log("connected as " + r.worker_id)
        self.lease, self.last, self.input = r.lease.ToNanoseconds() / 1e9, r.worker_id, r.input
        if r.store_id != self.store:
            self.store, self.epoch, self.attempts = r.store_id, 0, {}
        self.epoch = max(self.epoch, r.epoch)
        for id, job in list(self.jobs.items()):
            if id in r.kept:
                job.again()
            else:
                job.drop(LeaseLost("the daemon gave the call up"))
        with self.lock:
            again = [m for m, _ in self.completing.values()]
        for m in again:
            threading.Thread(target=self._queue, args=[m], daemon=True).start()

    def _away(self):
        """Starts the lease's timer for all running jobs. Another connection must resume them before the lease expires."""
        with self.lock:
            for job in self.jobs.values():
                if job.patience is None:
                    job.patience = threading.Timer(self.lease, job.drop, [LeaseLost("the daemon was not reached in time")])
                    job.patience.daemon = True
                    job.patience.start()


class Kept:
    """A file that the garbage collector does not close. The collector may run in any thread, also in one that holds the locks that close needs."""

    def __del__(self):
        pass


class Input(Kept, io.BufferedReader):  # type: ignore[misc]
    """The buffered reader that a function gets for the call's input."""


class Typed(Kept, io.RawIOBase):
    """The unbuffered reader of a call's input."""

    def __init__(self, job):
        super().__init__()
        if not job.worker.input:
            raise NoInput("the call takes no input: the daemon gives workers none")
        with job.lock:
            if job.typed:
                raise NoInput("the call takes no input: it was asked for already")
            job.typed = True
        self.job, self.position, self.ended = job, 0, False
        job.read(0, 0)

    def readable(self):
        return True

    def readinto(self, buffer):
        while not self.ended:
            m = self.job.read(self.position, len(buffer))
            self.position, self.ended = self.position + len(m.data), m.end_of_input
            if m.data:
                buffer[:len(m.data)] = m.data
                return len(m.data)
        return 0

    def close(self):
        if not self.closed and not self.job.stop.is_set():
            self.job.ask(self.position, 0, close=True)
        super().close()


class Job:
    """Work under a lease. It exists until the daemon has confirmed its outcome."""

    def __init__(self, worker, start):
        self.worker, self.lease, self.start = worker, start.lease_id, start
        self.stop, self.cause, self.patience = threading.Event(), None, None
        self.lock = threading.Lock()
        self.sequence, self.saving, self.done, self.dropped, self.admitted = 0, {}, None, False, True
        self.typed, self.asking, self.typing = False, None, queue.Queue()  # input was requested; the open request; received input

    def perform(self):
        call, kind = Call(self.start.call, self), self.start.kind
        done = pb.WorkerDone(lease_id=self.lease)
        _, run, asks, _ = self.worker.tools.get(call.tool, (None, None, {}, {}))
        try:
            if run is None or not self.admitted:
                done.not_run = True
            elif kind == pb.WORK_KIND_EXECUTE:
                done.result.CopyFrom(success(run(call, json.loads(call.arguments))))
            elif asks.get(kind):
                try:
                    value = asks[kind](call)
                except (NotRun, Question, Continue, Fail, CallCancelled):
                    raise
                except Exception:
                    if kind != pb.WORK_KIND_POLL:
                        raise
                    self.worker.log(f"{call.tool}: {traceback.format_exc()}")
                    raise NotRun from None  # NotRun says that the state is unknown, so toold polls again
                if value is not None and kind != pb.WORK_KIND_ABANDON:
                    done.result.CopyFrom(success(value))
        except NotRun:
            done.not_run = True
        except (Question, Continue, Fail) as answer:
            done.result.CopyFrom(outcome(answer))
        except CallCancelled as c:
            done.result.CopyFrom(aborted(c.code, str(c)))
        except BaseException as e:  # also SystemExit, which would otherwise only end the thread
            text = f"{call.tool}: {traceback.format_exc()}"
            self.worker.log(text)
            if kind == pb.WORK_KIND_EXECUTE:
                done.panic = readable(text)[-MAX_PANIC:]  # the end of a traceback names the exception
            else:
                done.result.CopyFrom(aborted(result.ERROR_CODE_INTERNAL, f"The tool failed internally: {type(e).__name__}"))
        m = pb.ConnectRequest(done=done)
        if m.ByteSize() > MAX_MESSAGE:
            m = pb.ConnectRequest(done=pb.WorkerDone(lease_id=self.lease, result=pb.WorkerResult(
                status=result.RESULT_STATUS_ERROR, error=result.ToolError(
                    code=result.ERROR_CODE_EXECUTION_FAILED, reason="RESULT_TOO_LARGE",
                    message=f"The tool ran, but its result cannot be sent: it has {m.ByteSize()} bytes; at most {MAX_MESSAGE} are taken"))))
        with self.lock:
            self.done = m
        self.say(m, last=True)

    def say(self, m, last=False):
        """Queues a message. While the queue is full, it waits, unless the job is dropped or the worker ends."""
        while not (self.dropped or self.worker.over.is_set()):
            if self.stop.is_set() and not last:
                raise self.cause
            try:
                return self.worker.out.put(m, timeout=0.2)
            except queue.Full:
                pass

    def cancel(self, cause):
        if self.cause is None:
            self.cause = cause
        self.stop.set()
        self.typing.put(None)

    def ask(self, position, size, close=False):
        """Requests input. If the connection breaks meanwhile, again() repeats the request."""
        m = pb.ConnectRequest(report=pb.WorkerReport(
            lease_id=self.lease, read_input=pb.WorkerReadInput(position=position, max_bytes=min(size, 64 << 10), close=close)))
        with self.lock:
            self.asking = m
        self.say(m)

    def read(self, position, size):
        self.ask(position, size)
        m = self.typing.get()
        if m is None:
            self.typing.put(None)  # put None back, so that the next read raises too
            raise self.cause
        if m.error:
            raise NoInput(m.error)
        return m

    def given(self, m):
        """Passes input to the reader. It drops input that was not requested or was already received."""
        with self.lock:
            if self.asking and self.asking.report.read_input.position == m.position:
                if not self.asking.report.read_input.close:
                    self.typing.put(m)
                self.asking = None

    def again(self):
        """Repeats the messages that the daemon has not confirmed."""
        with self.worker.lock:
            if self.patience:
                self.patience.cancel()
                self.patience = None
        with self.lock:
            repeat = [m for m, _ in self.saving.values()] + [m for m in (self.asking, self.done) if m]
        threading.Thread(target=lambda: [self.say(m, last=True) for m in repeat], daemon=True).start()

    def drop(self, cause):
        with self.lock:
            self.dropped = True
        self.cancel(cause)
        with self.worker.lock:
            if self.patience:
                self.patience.cancel()
            self.worker.jobs.pop(self.lease, None)
        with self.lock:
            for _, kept in self.saving.values():
                kept.put((str(cause), ""))
            self.saving.clear()

    def acknowledged(self, ack):
        if ack.sequence == 0:
            return self.drop(LeaseLost("the call has ended"))
        with self.lock:
            _, kept = self.saving.pop(ack.sequence, (None, None))
        if kept:
            kept.put((ack.error, ack.artifact))

    def save(self, **report):
        kept = queue.Queue()
        with self.lock:
            if self.dropped:
                raise self.cause
            self.sequence += 1
            m = pb.ConnectRequest(report=pb.WorkerReport(lease_id=self.lease, sequence=self.sequence, **report))
            if m.ByteSize() > MAX_MESSAGE:
                raise ValueError(f"{next(iter(report))} of {m.ByteSize()} bytes; at most {MAX_MESSAGE} are taken")
            self.saving[self.sequence] = (m, kept)
        self.say(m)
        error, name = kept.get()
        if error:
            raise RuntimeError(error)
        return name
