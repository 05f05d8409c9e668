"""A client that calls tools, answers questions and watches calls.

    client = Client("127.0.0.1:7130", token)
    print(client.call("grep", {"pattern": "TODO"}).result.message)

After a broken connection or a restart of the daemon, streams continue at their last cursor and deliver no event twice.
"""
import json
import random
import time
import uuid

import grpc

from . import digest
from .channel import connect, metadata
from .v1 import batch_pb2 as batches
from .v1 import call_pb2 as calls
from .v1 import call_service_pb2 as pb
from .v1 import call_service_pb2_grpc as rpc
from .v1 import document_service_pb2_grpc as documents
from .v1 import suspension_pb2 as suspension
from .v1 import tool_service_pb2_grpc as tools

TERMINAL = (calls.CALL_STATUS_SUCCEEDED, calls.CALL_STATUS_FAILED, calls.CALL_STATUS_CANCELLED)


class DigestMismatch(Exception):
    """The digest of a question does not match the call that contains it. Do not answer such a question."""


class Client:
    """A connection to a daemon. The generated stubs are `calls`, `tools` and `documents`; pass `metadata` to their methods."""

    def __init__(self, address="127.0.0.1:7130", token="", *, credentials=None, patience=60.0):
        """`patience` is how many seconds calls and streams try to reconnect before they raise an error."""
        self.channel, self.metadata, self.patience = connect(address, credentials, token), metadata(token), patience
        self.calls = rpc.CallServiceStub(self.channel)
        self.tools = tools.ToolServiceStub(self.channel)
        self.documents = documents.DocumentServiceStub(self.channel)

    def close(self):
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def spec(self, tool, arguments=None, *, call_id="", run_id="", thread_id="", labels=None, **fields):
        """Returns a toold.v1.CallSpec with a new id, so that sending it again does not run the call twice."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        s = calls.CallSpec(tool=tool, arguments=text, call_id=call_id or str(uuid.uuid4()), **fields)
        if run_id or thread_id or labels:
            s.run.MergeFrom(calls.Run(run_id=run_id, thread_id=thread_id, labels=labels))
        return s

    def call(self, tool, arguments=None, *, timeout=None, **spec):
        """Runs a tool and returns the toold.v1.Call when it has ended or is suspended, or after `timeout` seconds."""
        s = self.spec(tool, arguments, **spec)
        request = pb.CallToolRequest(spec=s)
        request.wait.FromSeconds(int(timeout or 300))
        pauses = _Pauses(self.patience)
        while True:
            try:
                call = self.calls.CallTool(request, metadata=self.metadata).call
                if timeout or call.status in TERMINAL or call.status == calls.CALL_STATUS_SUSPENDED:
                    return call
            except grpc.RpcError as e:
                pauses.after(e)

    def execute(self, tool, arguments=None, *, wait_for_decision=False, **spec):
        """Runs a tool and yields its toold.v1.CallEvents, up to the terminal event, or up to a suspension unless `wait_for_decision` is set."""
        request = pb.ExecuteToolRequest(spec=self.spec(tool, arguments, **spec), wait_for_decision=wait_for_decision)
        return self._events(self.calls.ExecuteTool, request)

    def watch(self, *, follow=True, cursor="", after_sequence=None, **selector):
        """Yields the toold.v1.Frames of a call (call_id=), or of all calls of a batch_id=, run_id=, thread_id= or namespace=True."""
        request = pb.WatchCallsRequest(follow=follow, cursor=cursor, **selector)
        if after_sequence is not None:
            request.after_sequence = after_sequence
        return self._frames(self.calls.WatchCalls, request)

    def batch(self, specs, *, strategy=batches.BATCH_STRATEGY_SEQUENTIAL, wait_for_decision=False, **batch):
        """Runs the calls of a model turn and yields the frames. The last frame, `batch_finished`, has a result for each call."""
        batch.setdefault("batch_id", str(uuid.uuid4()))
        request = pb.ExecuteBatchRequest(
            spec=batches.BatchSpec(calls=specs, strategy=strategy, **batch), wait_for_decision=wait_for_decision)
        return self._frames(self.calls.ExecuteBatch, request)

    def get(self, call_id):
        return self.calls.GetCall(pb.GetCallRequest(call_id=call_id), metadata=self.metadata).call

    def cancel(self, call_id, reason="", wait=10):
        request = pb.CancelCallRequest(call_id=call_id, reason=reason)
        request.wait.FromSeconds(wait)
        return self.calls.CancelCall(request, metadata=self.metadata).call

    def waiting(self, **filter):
        """Yields the calls that wait for a decision, oldest first."""
        request = pb.ListCallsRequest(statuses=[calls.CALL_STATUS_SUSPENDED], order=pb.CALL_ORDER_OLDEST_FIRST, **filter)
        while True:
            page = self.calls.ListCalls(request, metadata=self.metadata)
            yield from page.calls
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def verify(self, call):
        """Recomputes the digest of a call's open question from the call, and raises DigestMismatch when they differ."""
        if call.suspension.digest != digest.of_call(call):
            raise DigestMismatch(f"the question of {call.call_id} is for something else than it shows")

    def resume(self, call, result=None, *, arguments=None, reason="", wait_for_decision=False, decision_id=""):
        """Approves exactly what the call shows, or answers its question. Returns an iterator over the events that follow."""
        self.verify(call)
        text = lambda v: "" if v is None else json.dumps(v)
        return self._decide(call, wait_for_decision, suspension.Decision(
            decision_id=decision_id or str(uuid.uuid4()), action=suspension.DECISION_ACTION_RESUME, result=text(result),
            arguments=text(arguments), reason=reason, expected_digest=call.suspension.digest))

    def decline(self, call, reason="", *, decision_id=""):
        """Declines the open question of a call. Returns an iterator over the events that follow."""
        return self._decide(call, False, suspension.Decision(
            decision_id=decision_id or str(uuid.uuid4()), action=suspension.DECISION_ACTION_CANCEL, reason=reason,
            expected_digest=call.suspension.digest))

    def _decide(self, call, wait_for_decision, decision):
        request = pb.ResumeToolRequest(
            suspension_id=call.suspension.suspension_id, call_id=call.call_id, decision=decision, wait_for_decision=wait_for_decision)
        return _first(self._events(self.calls.ResumeTool, request))

    def _events(self, method, request):
        for frame in self._frames(method, request):
            yield from frame.events

    def _frames(self, method, request):
        """Yields the frames of a stream, and opens it again at the last cursor when it breaks. A frame with events has the cursor after them."""
        pauses = _Pauses(self.patience)
        while True:
            again = False
            try:
                for response in method(request, metadata=self.metadata):
                    frame = response.frame
                    if frame.cursor:
                        request.cursor = frame.cursor
                        if isinstance(request, pb.WatchCallsRequest):
                            request.ClearField("after_sequence")
                    pauses.reset()
                    control = frame.WhichOneof("control")
                    if control == "closing":
                        again = True
                    elif control != "heartbeat":
                        yield frame
                if not again:
                    return
            except grpc.RpcError as e:
                pauses.after(e)
            else:
                pauses.wait()


class _Pauses:
    """The growing pauses between attempts to reach a daemon."""

    def __init__(self, patience):
        self.patience = patience
        self.reset()

    def reset(self):
        self.pause, self.since = 0.1, None

    def after(self, error):
        """Waits if the error is temporary, and raises any other error."""
        if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED) and "WATCHER_LAGGED" not in str(
                error.trailing_metadata()):
            raise error
        self.since = self.since or time.monotonic()
        if time.monotonic() - self.since > self.patience:
            raise error
        self.wait()

    def wait(self):
        time.sleep(self.pause * random.uniform(0.8, 1.2))
        self.pause = min(2 * self.pause, 5)


def _first(events):
    """Reads the first event now, so that a decision is sent even if the caller never reads the events."""
    try:
        head = [next(events)]
    except StopIteration:
        head = []

    def all():
        yield from head
        yield from events

    return all()
