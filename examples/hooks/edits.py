#!/usr/bin/env python3
"""A gate that asks before a file outside src/ changes, and an After hook that reminds the model of the tests after an edit."""
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
        return {"add": "Run the tests before you go on."}  # appended to the text for the model
    return {}


print(json.dumps({"gate": gate, "after": after}[call["kind"]]()))
