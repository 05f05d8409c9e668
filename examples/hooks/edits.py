#!/usr/bin/env python3
"""A hook of two kinds: asks before a file outside src/ changes, and after an edit reminds of the tests."""
import json
import sys

call = json.load(sys.stdin)
path = call["tool_input"].get("path", "")


def gate():
    if call["assessment"]["mutability"] == "MUTATING" and not path.startswith("src/"):
        return {"verdict": "ask", "reason": f"May {call['tool_name']} change {path}?"}
    return {"verdict": "allow"}


def after():
    if call["outcome"]["status"] == "SUCCEEDED" and path.endswith(".py"):
        return {"add": "Run the tests before you go on."}  # behind what the model reads
    return {}


print(json.dumps({"gate": gate, "after": after}[call["kind"]]()))
