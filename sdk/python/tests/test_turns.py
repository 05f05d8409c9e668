"""Tests of what a turn's frames become."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from toold._rpc import run  # noqa: E402
from toold.turns import Export, Reader  # noqa: E402
from toold.v1 import event_pb2 as event  # noqa: E402
from toold.v1 import turn_pb2 as turn  # noqa: E402


def started(*calls):
    return event.Frame(turn_started=turn.TurnStarted(batch_id="b", calls=[turn.TurnCall(index=i, call_id=f"c{i}", tool=tool) for i, tool in calls]))


def message(index, value):
    """Yields the frames of a message in two parts."""
    text = json.dumps(value)
    yield event.Frame(turn_message=turn.TurnMessage(index=index, part=text[:9]))
    yield event.Frame(turn_message=turn.TurnMessage(index=index, part=text[9:], last=True))


def finished(*own, **fields):
    not_handled = [turn.NotHandled(index=i, id=f"o{i}") for i in own]
    return event.Frame(turn_finished=turn.TurnFinished(not_handled=not_handled, **fields))


def read(provider, *frames, **options):
    reader = Reader(Export(provider, **options))
    for frame in frames:
        reader.read(frame)
    return reader


class Turns(unittest.TestCase):
    def test_a_break_within_a_message(self):
        part, rest = message(0, {"role": "tool", "content": "a"})
        r = read("openai", started((0, "read")), part, started((0, "read")), part, rest, finished())
        self.assertEqual(r.result.messages, [{"role": "tool", "content": "a"}])

    def test_merge(self):
        tool = lambda id: {"role": "tool", "tool_call_id": id}
        images = {"role": "user", "content": "images"}
        for provider, messages, answers, merged in (
            ("openai", [tool("a"), tool("c"), images], [tool("b")], [tool("a"), tool("b"), tool("c"), images]),
            ("anthropic", [{"role": "user", "content": ["a", "c", "text"]}], ["b"], [{"role": "user", "content": ["a", "b", "c", "text"]}]),
            ("gemini", [{"role": "user", "parts": ["a", "c"]}], ["b"], [{"role": "user", "parts": ["a", "b", "c"]}]),
        ):
            frames = [f for i, m in enumerate(messages) for f in message(i, m)]
            r = read(provider, started((0, "read"), (2, "read")), *frames, finished(1))
            self.assertEqual(r.result.merge(answers), merged)
            with self.assertRaisesRegex(ValueError, "1 calls need an answer of the client, and 0"):
                r.result.merge([])

    def test_merge_without_calls_for_toold(self):
        r = read("anthropic", started(), finished(0))
        self.assertEqual(r.result.merge(["a"]), [{"role": "user", "content": ["a"]}])

    def test_merge_while_a_call_is_open(self):
        r = read("openai", started((0, "bash")), finished(1, open=["c0"]))
        with self.assertRaisesRegex(ValueError, "calls are open: c0"):
            r.result.merge([{}])

    def test_found_tools_are_in_the_next_export(self):
        def found(data, call="c0"):
            e = event.CallEvent(call_id=call)
            e.finished.result.data = data
            return event.Frame(events=[e])

        searches = started((0, "tool_search"), (1, "read"))
        frames = [searches, found('{"tools":[{"id":"a"},{"id":"b"}]}'), found('{"tools":[{"id":"b"},{"id":"c"}]}'), found('{"tools":[{"id'),
                  found('{"tools":[{"id":"x"}]}', "c1")]
        request = read("openai", *frames, max_tools=8).export.request()
        self.assertEqual((list(request.include), request.max_tools), (["b", "c", "a", "read"], 8))
        self.assertEqual(list(read("openai", *frames).export.request().include), [])

    def test_turns_run_only_offered_tools(self):
        spec = Export("openai", allow=["read*"], exclude=["read_all"], strict=True, own_tools=["mine"]).turn({}, "t" * 16, "r", "", "stop", None, {})
        self.assertEqual((list(spec.run.agent.tools.allow), list(spec.run.agent.tools.exclude)), (["read*"], ["read_all"]))
        self.assertEqual((spec.run.run_id, spec.strict, list(spec.own_tools), spec.stop_reason, spec.message), ("r", True, ["mine"], "stop", "{}"))
        text = '{"a": 1.0,\n "b":2}'
        self.assertEqual(Export("openai").turn(text, "t" * 16, "", "", "", None, {}).message, text)

    def test_a_callback_that_suspends(self):
        class Suspends:
            def __await__(self):
                yield

        async def callback():
            await Suspends()

        with self.assertRaisesRegex(TypeError, "use an ordinary function"):
            run(callback())


if __name__ == "__main__":
    unittest.main()
