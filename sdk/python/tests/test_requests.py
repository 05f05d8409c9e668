"""Tests of errors, retries and the check of the version, against a server of this process."""
import asyncio
import concurrent.futures
import json
import pathlib
import sys
import threading
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import grpc  # noqa: E402

from toold import Client, TooldError, Worker, aio, digest, reasons  # noqa: E402
from toold._rpc import run  # noqa: E402
from toold.turns import Export, Reader  # noqa: E402
from toold.v1 import admin_service_pb2 as admin  # noqa: E402
from toold.v1 import call_pb2 as calls  # noqa: E402
from toold.v1 import call_service_pb2 as pb  # noqa: E402
from toold.v1 import event_pb2 as event  # noqa: E402
from toold.v1 import result_pb2 as results  # noqa: E402
from toold.v1 import rpc_error_details_pb2 as details  # noqa: E402
from toold.v1 import rpc_status_pb2 as status  # noqa: E402
from toold.v1 import suspension_pb2 as suspension  # noqa: E402
from toold.v1 import tool_service_pb2 as tools  # noqa: E402
from toold.v1 import turn_pb2 as turn  # noqa: E402
from toold.version import mismatch  # noqa: E402


def refusal(code, message, **parts):
    """Returns the status of a daemon, with Google's names of the details."""
    s = status.Status(code=code.value[0], message=message)
    for kind, detail in parts.items():
        s.details.add(type_url="type.googleapis.com/google.rpc." + kind, value=detail.SerializeToString())
    return code, message, (("grpc-status-details-bin", s.SerializeToString()),)


class Daemon(grpc.GenericRpcHandler):
    """Answers GetInfo with a version, each GetCall with the next refusal, or a call, and each decision with no events."""

    def __init__(self, version="1.0.0"):
        self.version, self.refusals, self.asked, self.decisions = version, [], [], []
        self.serves = {}  # handlers of further methods, by method name

    def service(self, details):
        self.asked.append(details.method.rpartition("/")[2])
        if details.method == "/toold.v1.AdminService/GetInfo" and self.version is not None:
            return grpc.unary_unary_rpc_method_handler(lambda *_: admin.GetInfoResponse(version=self.version).SerializeToString())
        serve = self.serves.get(self.asked[-1])
        if serve:
            stream = not isinstance(serve, Breaking) or serve.stream
            return (grpc.unary_stream_rpc_method_handler if stream else grpc.unary_unary_rpc_method_handler)(serve)
        if details.method == "/toold.v1.CallService/ResumeTool":
            return grpc.unary_stream_rpc_method_handler(self.resume)
        return grpc.unary_unary_rpc_method_handler(self.get) if details.method == "/toold.v1.CallService/GetCall" else None

    def resume(self, request, _):
        self.decisions.append(pb.ResumeToolRequest.FromString(request).decision)
        return iter(())

    def get(self, _, context):
        if self.refusals:
            code, message, trailers = self.refusals.pop(0)
            context.set_trailing_metadata(trailers)
            context.abort(code, message)
        response = pb.GetCallResponse()
        response.call.call_id = "c1"
        return response.SerializeToString()


def question(n):
    """Returns a question that waits."""
    s = str(n)
    return pb.InboxQuestion(call=calls.Call(call_id=s, suspension=suspension.Suspension(suspension_id=s)), rights=suspension.TicketRights(call_id=s, suspension_id=s))


class Breaking:
    """Serves a method: respond makes the n-th response. The attempts in `fails` end with UNAVAILABLE. A stream sends its response before it ends."""

    def __init__(self, respond, fails=(), stream=False):
        self.respond, self.fails, self.stream, self.attempts = respond, fails, stream, 0

    def __call__(self, _, context):
        n, self.attempts = self.attempts, self.attempts + 1
        if self.stream:
            return self.responses(n, context)
        if n in self.fails:
            context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
        return self.respond(n).SerializeToString()

    def responses(self, n, context):
        yield self.respond(n).SerializeToString()
        if n in self.fails:
            context.abort(grpc.StatusCode.UNAVAILABLE, "gone")


class Requests(unittest.TestCase):
    def serve(self, daemon):
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), handlers=[daemon])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)
        self.address = f"127.0.0.1:{port}"
        client = Client(self.address, patience=30)
        self.addCleanup(client.close)
        return client

    def test_errors(self):
        daemon = Daemon("unknown")
        client = self.serve(daemon)
        field = details.BadRequest.FieldViolation(field="call_id", description="is required")
        daemon.refusals.append(refusal(
            grpc.StatusCode.NOT_FOUND, "no such call", ErrorInfo=details.ErrorInfo(reason="CALL_NOT_FOUND", metadata={"call_id": "c1"}),
            BadRequest=details.BadRequest(field_violations=[field])))
        with self.assertRaises(reasons.CallNotFound) as caught:
            client.get("c1")
        e = caught.exception
        self.assertEqual((e.code, e.reason, e.message, str(e)), (grpc.StatusCode.NOT_FOUND, "CALL_NOT_FOUND", "no such call", "no such call"))
        self.assertEqual((e.metadata, e.fields, e.retry_after), ({"call_id": "c1"}, {"call_id": "is required"}, None))
        self.assertIn("ListCalls", e.hint)
        self.assertEqual(e.__notes__, [e.hint])

    def test_a_reason_of_a_newer_daemon(self):
        daemon = Daemon("unknown")
        client = self.serve(daemon)
        daemon.refusals.append(refusal(grpc.StatusCode.NOT_FOUND, "gone", ErrorInfo=details.ErrorInfo(reason="NEW_REASON")))
        with self.assertRaises(TooldError) as caught:
            client.get("c1")
        self.assertEqual((caught.exception.reason, caught.exception.hint), ("NEW_REASON", ""))

    def test_retry_info(self):
        daemon = Daemon("unknown")
        client = self.serve(daemon)
        info, soon, late = details.ErrorInfo(reason="QUEUE_FULL"), details.RetryInfo(), details.RetryInfo()
        soon.retry_delay.FromMilliseconds(1)
        late.retry_delay.FromSeconds(3600)
        daemon.refusals += [refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", ErrorInfo=info, RetryInfo=soon)] * 3
        self.assertEqual(client.get("c1").call_id, "c1")
        daemon.refusals.append(refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", ErrorInfo=info, RetryInfo=late))
        with self.assertRaises(reasons.QueueFull) as caught:  # later than the patience of the client
            client.get("c1")
        self.assertEqual(caught.exception.retry_after, 3600)
        self.assertEqual(daemon.asked, ["GetInfo"] + ["GetCall"] * 5)

    def test_retry_info_that_no_client_can_honour(self):
        for seconds in (0, -5, 1 << 50):
            daemon, delay = Daemon("unknown"), details.RetryInfo()
            self.serve(daemon)
            delay.retry_delay.seconds = seconds
            daemon.refusals += [refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", RetryInfo=delay)] * 3
            with Client(self.address, patience=0.05) as client, self.assertRaises(TooldError) as caught:
                client.get("c1")
            self.assertEqual((caught.exception.code, daemon.asked.count("GetCall")), (grpc.StatusCode.RESOURCE_EXHAUSTED, 1))

    def test_tokens_that_expire(self):
        daemon = Daemon("unknown")
        self.serve(daemon)
        expired = refusal(grpc.StatusCode.UNAUTHENTICATED, "expired", ErrorInfo=details.ErrorInfo(reason="TOKEN_EXPIRED"))
        seen, tokens = [], ["old", "old", "new\n"]

        def get(request, context):
            seen.append(dict(context.invocation_metadata()).get("authorization"))
            return Daemon.get(daemon, request, context)

        daemon.get = get
        daemon.refusals += [expired]
        with Client(self.address, lambda: tokens.pop(0) if len(tokens) > 1 else tokens[0]) as renewing:
            self.assertEqual(renewing.get("c1").call_id, "c1")
        self.assertEqual(seen[0], "Bearer old")
        self.assertEqual(seen[-1], "Bearer new")
        daemon.refusals += [expired]
        with Client(self.address, "old") as fixed, self.assertRaises(reasons.TokenExpired):
            fixed.get("c1")

    def test_each_request_of_a_method_has_the_whole_patience(self):
        daemon = Daemon("unknown")
        daemon.serves["CallTool"] = Breaking(lambda n: pb.CallToolResponse(call=calls.Call(status=calls.CALL_STATUS_SUCCEEDED if n == 5 else calls.CALL_STATUS_RUNNING)), fails=(0, 2, 4))
        self.serve(daemon)
        with Client(self.address, patience=0.25) as client:
            self.assertEqual(client.call("wait").status, calls.CALL_STATUS_SUCCEEDED)

    def test_streams_that_break(self):
        """Only a new position restarts the patience."""
        def watch(cursor):
            daemon = Daemon("unknown")
            daemon.serves["WatchCalls"] = Breaking(lambda n: pb.WatchCallsResponse(frame=event.Frame(cursor=cursor(n), caught_up=event.CaughtUp())), fails=range(4), stream=True)
            self.serve(daemon)
            with Client(self.address, patience=0.25) as client:
                return len(list(client.watch(namespace=True)))

        self.assertEqual(watch(str), 5)
        with self.assertRaises(TooldError):
            watch(lambda _: "same")

    def asking(self, streams):
        """Serves an inbox. Each of `streams` has the changes of a stream of WatchInbox, which breaks after them unless it closes. Each list has one more call."""
        daemon = Daemon("unknown")
        daemon.serves["ListCalls"] = Breaking(lambda n: pb.ListCallsResponse(calls=[question(i).call for i in range(n + 1)]))
        streams = iter(streams)

        def watch(_, context):
            for change in next(streams):
                yield pb.WatchInboxResponse(**change).SerializeToString()
            if "closing" not in change:
                context.abort(grpc.StatusCode.UNAVAILABLE, "restarting")

        daemon.serves["WatchInbox"] = watch
        return daemon, self.serve(daemon)

    def test_an_inbox_lists_what_is_new(self):
        """Each question comes once, also over broken streams. The client reads the list only when the stream has a question that it does not know."""
        known, begins, new = dict(waiting=question(0)), dict(caught_up=pb.InboxCaughtUp()), [dict(waiting=question(i)) for i in range(9)]
        daemon, client = self.asking([[known, begins, new[1], known, new[1], dict(settled=pb.SettledQuestion(suspension_id="0")), new[2]], [known, dict(heartbeat=event.Heartbeat()), dict(closing=event.Closing())], [known, known, begins, new[4]]])
        calls = client.inbox(timeout=20)
        self.assertEqual([next(calls).call_id for _ in range(5)], list("01234"))
        self.assertEqual((daemon.asked.count("ListCalls"), daemon.asked.count("WatchInbox")), (5, 3))

    def test_an_inbox_with_changes_keeps_its_patience(self):
        """A stream with changes has no heartbeats, and each of its changes restarts the patience."""
        begins = dict(caught_up=pb.InboxCaughtUp())
        for change, works in ((lambda n: [dict(settled=pb.SettledQuestion(suspension_id=str(n)))], True), (lambda _: [], False)):
            self.asking([[begins, *change(n)] for n in range(4)] + [[begins, dict(waiting=question(4))]])
            with Client(self.address, patience=0.25) as client:
                calls = client.inbox(timeout=20)
                if works:
                    self.assertEqual([next(calls).call_id for _ in range(5)], list("01234"))
                else:
                    with self.assertRaisesRegex(TooldError, "restarting"):
                        list(calls)

    def test_asyncio_leaves_no_stream_open(self):
        """The stream of a turn ends when its task is cancelled, and when the callback raises an exception."""
        ended = threading.Event()

        def execute(_, context):
            context.add_callback(ended.set)
            yield pb.ExecuteTurnResponse(frame=event.Frame(cursor="1", events=[event.CallEvent(call_id="a")])).SerializeToString()
            ended.wait(60)

        daemon = Daemon("unknown")
        daemon.serves.update(ExecuteTurn=execute, ExportTools=Breaking(lambda _: tools.ExportToolsResponse(tools="[]")))
        self.serve(daemon)

        async def use(on_event):
            async with aio.Client(self.address) as client:
                turn = (await client.toolset("openai")).turn({}, turn_id="t" * 16)
                seen = asyncio.Event()
                running = asyncio.create_task(turn.run(on_event or (lambda _: seen.set())))
                if on_event is None:
                    await seen.wait()
                    running.cancel()
                with self.assertRaises((asyncio.CancelledError, ZeroDivisionError)):
                    await running
                self.assertTrue(await asyncio.to_thread(ended.wait, 60))
                ended.clear()

        for on_event in (None, lambda _: 1 / 0):
            asyncio.run(use(on_event))

    def test_time_limit(self):
        daemon = Daemon("unknown")
        client = self.serve(daemon)
        late = details.RetryInfo()
        late.retry_delay.FromSeconds(20)
        daemon.refusals += [refusal(grpc.StatusCode.UNAVAILABLE, "drains", RetryInfo=late)]
        with self.assertRaises(TooldError) as caught:
            client.get("c1", timeout=0.05)
        self.assertEqual(caught.exception.code, grpc.StatusCode.DEADLINE_EXCEEDED)

    def test_version(self):
        for daemon, ours, todo in (
            ("0.1.0", "0.1.0", ""), ("v0.9.3", "0.1.0", ""), ("0.2.0-rc.1+x", "0.1.0", ""), ("unknown", "0.1.0", ""), ("4d1f00a", "0.1.0", ""),
            ("", "0.1.0", ""), ("0.0.0-20261124094551-293eaa05f00d", "0.1.0", ""), ("0.0.9", "0.1.0", "upgrade the daemon to 0.1 or later"), ("1.0.0", "0.1.0", "upgrade the package toold to 1"),
            ("1.4.0", "2.0.0", "upgrade the daemon to 2 or later"),
        ):
            self.assertEqual(mismatch(daemon, ours), todo, (daemon, ours))
        daemon = Daemon("7.1.0")
        with self.assertRaisesRegex(reasons.VersionMismatch, "7.1.0.*upgrade the package toold to 7"):
            self.serve(daemon).get("c1")
        self.assertEqual(daemon.asked, ["GetInfo"])

    def test_not_toold(self):
        client = self.serve(Daemon(None))
        with self.assertRaises(reasons.NotToold):
            client.get("c1")
        with self.assertRaises(reasons.NotToold):
            Worker("pool", address=self.address).run()

    def test_a_result_in_the_tools_place(self):
        daemon = Daemon("unknown")
        client = self.serve(daemon)
        call = pb.GetCallResponse().call
        call.call_id, call.effective_arguments, call.suspension.suspension_id = "c1", "{}", "s-1"
        call.suspension.expires_at.seconds = 1
        call.suspension.digest = digest.of_call(call)
        list(client.resume(call, result_instead={"data": {"paid": True}, "message": "Paid by hand."}))
        list(client.resume(call, result_instead={"message": "closed", "error": True}))
        with self.assertRaises(ValueError):
            client.resume(call, result_instead={"text": "Paid by hand."})
        paid, closed = (d.result_instead for d in daemon.decisions)
        self.assertEqual((json.loads(paid.data), paid.message, paid.error), ({"paid": True}, "Paid by hand.", False))
        self.assertEqual((closed.data, closed.message, closed.error), ("", "closed", True))
        self.assertEqual((daemon.decisions[0].expected_digest, daemon.decisions[0].result), (call.suspension.digest, ""))

    def test_bad_arguments(self):
        client = self.serve(Daemon("unknown"))
        for arguments, wrong in (
            (dict(provider="cohere"), "is none of openai, "), (dict(provider="anthropic", strict=True), "has no strict mode"),
            (dict(provider="openai", allow="read*"), "give a list"),
        ):
            with self.assertRaisesRegex((ValueError, TypeError), wrong):
                client.toolset(**arguments)
        toolset = aio.Toolset(None, aio.Export("openai"))
        with self.assertRaisesRegex(ValueError, "turn_id is required"):
            toolset.turn({}, turn_id="")
        with self.assertRaisesRegex(TypeError, "give its JSON text"):
            toolset.turn(object(), turn_id="t" * 16)

    def test_search(self):
        """The next export includes the tools that a call of tool_search found. A search during a refresh does not change its pages."""
        export = Export("openai", max_tools=9)
        reader, answers = Reader(export), []

        def search(*found):
            reader.read(event.Frame(turn_started=turn.TurnStarted(calls=[turn.TurnCall(call_id="s", tool="tool_search"), turn.TurnCall(call_id="o", tool="read"), turn.TurnCall(tool="x" * 257)])))
            for call_id, data in found:
                reader.read(event.Frame(events=[event.CallEvent(call_id=call_id, finished=event.CallFinished(result=results.ToolResult(data=data)))]))

        useless = ("", "null", "5", '"x"', "[]", "{", '{"tools":null}', '{"tools":[null]}', '{"tools":{"id":"x"}}', '{"tools":[{}]}')  # a hook can change data
        search(*(("s", data) for data in useless), ("o", '{"tools":[{"id":"forged"}]}'))
        self.assertEqual(export.recent, ["read"])

        class FakeClient:
            tools, _retry = unittest.mock.Mock(), unittest.mock.Mock()

            async def _request(self, _method, request, _retry):
                answers.append((list(request.include), request.page_token, request.if_revision))
                if len(answers) == 1:
                    search(("s", '{"tools":[{"id":"x"},{"id":"y"}]}'), ("s", '{"tools":[{"id":"y"},{"id":"z"}]}'))
                return tools.ExportToolsResponse(tools="[]", revision="1", next_page_token="" if request.page_token else "p")

        toolset = aio.Toolset(FakeClient(), export)
        for _ in range(2):
            self.assertTrue(run(toolset.refresh()))
        include = ["y", "z", "x", "read"]
        self.assertEqual(answers, [(["read"], "", ""), (["read"], "p", ""), (include, "", "1"), (include, "p", "")])


if __name__ == "__main__":
    unittest.main()
