"""Computes the digest of what an approver approves: canonical form v1 and the approval digest."""
import hashlib
import json

from .v1 import isolation_pb2 as isolation
from .v1 import suspension_pb2 as suspension


class _Number(str):
    """The unchanged text of a JSON number."""


def parse(text):
    """Parses JSON and keeps the text of numbers. Raises ValueError for duplicate member names."""

    def pairs(members):
        out = dict(members)
        if len(out) != len(members):
            raise ValueError("a name is used twice")
        return out

    def refuse(token):
        raise ValueError(f"{token} is not JSON")

    return json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=refuse, object_pairs_hook=pairs)


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def _quoted(text):
    return '"' + "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'


def canonical(value):
    """Returns canonical form v1: no white space, members sorted by the UTF-8 bytes of their names, RFC 8785 escapes, number tokens unchanged."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    members = sorted(value.items(), key=lambda m: m[0].encode())
    return "{" + ",".join(_quoted(k) + ":" + canonical(v) for k, v in members) + "}"


def _sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def approval(*, arguments, message, parameters, response_schema, **fields):
    """Returns the approval digest in hexadecimal. `arguments` is JSON text."""
    fields.update(
        arguments=parse(arguments), message_sha256=_sha(message), parameters_sha256=_sha(parameters),
        response_schema_sha256=_sha(response_schema))
    return _sha("toold.approval.v1" + canonical(fields))


def of_call(call):
    """Computes the digest of the open question of a toold.v1.Call from the fields of the call."""
    s = call.suspension
    word = lambda enum, value, prefix: enum.Name(value).removeprefix(prefix)
    at = s.expires_at
    return approval(
        namespace=call.namespace, call_id=call.call_id, suspension_id=s.suspension_id, caller=call.caller.subject,
        on_behalf_of=call.run.on_behalf_of, tool=call.tool, tool_digest=call.tool_digest, arguments=call.effective_arguments,
        resume_mode=word(suspension.ResumeMode, s.resume_mode, "RESUME_MODE_"),
        required_isolation=word(isolation.IsolationLevel, call.isolation.required, "ISOLATION_LEVEL_").lower(),
        required_network=word(isolation.NetworkMode, call.isolation.network, "NETWORK_MODE_").lower(),
        expires_at=at.ToDatetime().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        message=s.message, parameters=s.parameters, response_schema=s.response_schema)
