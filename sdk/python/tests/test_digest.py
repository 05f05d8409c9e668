"""Tests digests with the daemon's test vectors, the schemas of functions, and the garbage collection of input readers."""
import dataclasses
import enum
import hashlib
import json
import os
import sys
import threading
import types
import typing
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from toold import digest, schema, worker

VECTORS = os.path.join(HERE, "../../../call/testdata")


class Inputs(unittest.TestCase):
    def test_garbage_asks_nothing(self):
        asked = []

        class Job:
            def read(self, position, limit):
                asked.append((position, limit))

            def ask(self, position, limit, close=False):
                asked.append("close")

        job = Job()
        job.worker, job.lock, job.typed, job.stop = types.SimpleNamespace(input=True), threading.Lock(), False, threading.Event()
        worker.Input(worker.Typed(job))
        self.assertEqual(asked, [(0, 0)])
        job.typed = False
        worker.Input(worker.Typed(job)).close()
        self.assertEqual(asked[2:], ["close"])


class Digests(unittest.TestCase):
    def test_canonical(self):
        with open(os.path.join(VECTORS, "canonical.json")) as f:
            for v in json.load(f)["vectors"]:
                with self.subTest(v["name"]):
                    got = digest.canonical(digest.parse(v["text"]))
                    self.assertEqual(got, v["canonical"])
                    self.assertEqual(hashlib.sha256(got.encode()).hexdigest(), v["sha256"])

    def test_approvals(self):
        with open(os.path.join(VECTORS, "digests.json")) as f:
            for a in json.load(f)["approvals"]:
                with self.subTest(a.pop("name")):
                    want = a.pop("digest")
                    a.pop("canonical")
                    self.assertEqual(digest.approval(**a), want)
                    self.assertNotEqual(digest.approval(**{**a, "message": a["message"] + " "}), want)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Box:
    width: int
    colour: Colour = Colour.RED


class Schemas(unittest.TestCase):
    def test_function(self):
        def paint(call, boxes: list[Box], note: typing.Annotated[str, "for people"] = "", by: str | None = None): ...

        made, bind = schema.of_function(paint)
        self.assertEqual(made, {
            "type": "object", "required": ["boxes"], "additionalProperties": False, "properties": {
                "boxes": {"type": "array", "items": {
                    "type": "object", "required": ["width"], "additionalProperties": False,
                    "properties": {"width": {"type": "integer"}, "colour": {"enum": ["red"]}}}},
                "note": {"type": "string", "description": "for people", "default": ""},
                "by": {"anyOf": [{"type": "string"}, {"type": "null"}]}}})
        self.assertEqual(bind({"boxes": [{"width": 2, "colour": "red"}]}), {"boxes": [Box(2, Colour.RED)]})

    def test_refused(self):
        def anything(call, *rest): ...

        with self.assertRaises(TypeError):
            schema.of_function(anything)


if __name__ == "__main__":
    unittest.main()
