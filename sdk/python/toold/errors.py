"""The error of a request. toold.reasons has a subclass for each reason of the daemon."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import grpc

from .v1 import rpc_error_details_pb2 as details
from .v1 import rpc_status_pb2 as status


class TooldError(Exception):
    """A request failed: the daemon refused it, or could not be reached. A traceback shows the hint as a note.

    - `code` is the grpc.StatusCode.
    - `reason` is stable, such as RUN_BLOCKED. It is empty if there is none. A newer daemon may send reasons that this package does not know.
    - `hint` says in a sentence what to do next. It is empty for an unknown reason.
    - `metadata` has facts about the cause.
    - `fields` maps each invalid field of the request to what is wrong with it.
    - `retry_after` is when the daemon accepts the same request again, in seconds from now, or None.
    """

    reason: str = ""
    hint: str = ""
    _by_reason: dict[str, type[TooldError]] = {}

    def __init_subclass__(cls) -> None:
        TooldError._by_reason[cls.reason] = cls

    def __init__(self, code: grpc.StatusCode, message: str, *, metadata: Mapping[str, str] | None = None,
                 fields: Mapping[str, str] | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.retry_after = code, message, retry_after
        self.metadata, self.fields = dict(metadata or {}), dict(fields or {})
        if self.hint:
            self.add_note(self.hint)

    @staticmethod
    def of(error: grpc.RpcError) -> TooldError:
        """Converts an error of a generated stub."""
        info, fields, retry_after = details.ErrorInfo(), {}, None
        for kind, data in _details(error.trailing_metadata()):
            if kind == "ErrorInfo":
                info = details.ErrorInfo.FromString(data)
            elif kind == "BadRequest":
                fields = {v.field: v.description for v in details.BadRequest.FromString(data).field_violations}
            elif kind == "RetryInfo":
                retry_after = details.RetryInfo.FromString(data).retry_delay.ToNanoseconds() / 1e9
        kind_of = TooldError._by_reason.get(info.reason, TooldError)
        out = kind_of(error.code(), error.details() or "", metadata=info.metadata, fields=fields, retry_after=retry_after)
        out.reason, out.__cause__ = info.reason, error
        return out


def _details(trailers: Any) -> Iterator[tuple[str, bytes]]:
    """Yields the name and the bytes of each detail. The names are those of Google's types; the classes of this package have other names."""
    for key, value in trailers or ():
        if key == "grpc-status-details-bin":
            for detail in status.Status.FromString(value).details:
                yield detail.type_url.rpartition(".")[2], detail.value
